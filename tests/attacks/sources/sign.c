/* A trusted program with a library of its own, found by its run path. */
int helper(void);

int main(void)
{
    return helper();
}
