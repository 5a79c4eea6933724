/* What `sign` needs. */
int helper(void)
{
    return 0;
}
