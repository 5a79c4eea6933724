# Runs on the other kernel, in the checkout: PYTHON=... sh tests/kernels/inside.sh [TESTS...]
# Prints what holds; its status is 1 if anything that had to be refused was not.
export HOME=/srv/home PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin LC_ALL=C.UTF-8
tool=$PWD/dist/codex-multitool
failed=0
mkdir -p $HOME/inside $HOME/outside
cd $HOME/inside
uname -r
cat /proc/sys/kernel/yama/ptrace_scope /sys/kernel/security/lsm 2>/dev/null

echo "--- doctor"
$tool doctor
echo "status $?"

echo "--- refusals"
cat >$HOME/attack.py <<'P'
import ctypes, os, sys
path = sys.argv[1]
libc = ctypes.CDLL(None, use_errno=True)
name = ctypes.create_string_buffer(os.fsencode(path))
how = ctypes.create_string_buffer(os.O_TRUNC.to_bytes(8, "little") + bytes(16), 24)
def call(number, *words):
    if libc.syscall(ctypes.c_long(number), *(ctypes.c_long(word) for word in words)) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
where = ctypes.addressof(name)
ways = {
    "write": lambda: os.open(path, os.O_WRONLY),
    "make": lambda: os.open(path + ".new", os.O_WRONLY | os.O_CREAT),
    "remove": lambda: os.unlink(path),
    "truncate(2)": lambda: os.truncate(path, 0),
    "O_TRUNC|O_RDONLY": lambda: os.open(path, os.O_TRUNC | os.O_RDONLY),
    "O_TRUNC|3": lambda: os.open(path, os.O_TRUNC | 3),
    "O_TRUNC|O_WRONLY": lambda: os.open(path, os.O_TRUNC | os.O_WRONLY),
    "open(2)": lambda: call(2, where, os.O_TRUNC),
    "creat(2)": lambda: call(85, where, 0o600),
    "openat2(2)": lambda: call(437, -100, where, ctypes.addressof(how), 24),
}
for way, deed in ways.items():
    try:
        deed()
        told = "DONE"
    except OSError as error:
        told = error.strerror
    if os.stat(path).st_size != 5:
        told = "EMPTIED"
    print(f"{way}: {told}")
P
for options in "" --full-auto; do
    echo kept >$HOME/outside/file
    $tool debug landlock $options -- python3 $HOME/attack.py $HOME/outside/file >$HOME/told 2>&1
    echo "debug landlock $options: $?"
    cat $HOME/told
    if grep -qE 'DONE|EMPTIED' $HOME/told || [ "$(cat $HOME/outside/file)" != kept ]; then
        echo "FAILED: $options"; failed=1
    fi
done
$tool debug landlock --full-auto -- sh -c 'echo a >made && rm made && mkdir d && rmdir d' || {
    echo "FAILED: nothing can be written in the workspace"; failed=1
}

echo "--- demonstration"
if $PYTHON $OLDPWD/packaging/demo.py >$HOME/told 2>&1; then echo passed; else tail -5 $HOME/told; failed=1; fi

if [ $# -gt 0 ]; then
    echo "--- tests"
    cd $OLDPWD && $PYTHON -m pytest -q -p no:cacheprovider "$@" || failed=1
fi
exit $failed
