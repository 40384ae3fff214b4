# For scripts that run several steps: `step COMMAND...` names a step, runs it, and says how long it took.
TIMEFORMAT='-- %lR'
step() {
    printf '\n== %s\n' "$*"
    time "$@"
}
