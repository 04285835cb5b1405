#!/usr/bin/env bash
# Checks and measures CUDA on a machine with an NVIDIA GPU and no network, after `make gpu-kit` elsewhere.
#   tools/gpu_day.sh check|speed|profile       less than ten minutes each; files are written to $OUT
#   OAR_KIT_DEVICE=shim tools/gpu_day.sh ...   a dry run on the stand-in of tests/cuda
set -uo pipefail
cd "$(dirname "$0")/.." || exit 3
OUT=${OUT:-/tmp/gpu_day}
mkdir -p "$OUT"
PYTHON=${PYTHON:-python3}
DEVICE=${OAR_KIT_DEVICE:-gpu}
export PYTHONUNBUFFERED=1 CUPY_CACHE_DIR=${CUPY_CACHE_DIR:-/tmp/cupy_cache}
failed=0

if [ "$DEVICE" = gpu ]; then
    [ -d /tmp/site/paddle ] ||
        "$PYTHON" -m pip install -q --no-index --no-deps --no-compile --target /tmp/site .gpu/*.whl || exit 3
    export PYTHONPATH=/tmp/site
fi

# Runs a command of at most $2 seconds, with its output in $OUT/$1; the last lines are printed.
step() {
    local log=$OUT/$1 limit=$2
    shift 2
    timeout "$limit" "$@" >"$log" 2>&1
    local code=$?
    tail -30 "$log"
    echo "== $(basename "$log"): exit status $code"
    [ $code -eq 0 ] || failed=1
}

# Runs a tool of the CUDA toolkit; its absence is reported.
tool() {
    if [ "$DEVICE" = shim ]; then
        shift_to_python "$@"
    elif command -v "$3" >/dev/null; then
        step "$@"
    else
        echo "== $3 is missing"
        failed=1
    fi
}

# The program that a tool would observe, without the tool.
shift_to_python() {
    local log=$1 limit=$2
    shift 2
    while [ "$1" != "$PYTHON" ]; do shift; done
    step "$log" "$limit" "$@"
}

facts() {
    if [ "$DEVICE" = gpu ]; then
        nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
    fi
    "$PYTHON" tools/gpu_kernels.py --facts
}

case ${1:-check} in
check) # about 6 minutes
    facts 2>&1 | tee "$OUT/facts.txt"
    if [ "$DEVICE" = gpu ]; then
        OMP_NUM_THREADS=1 step tests.log 330 "$PYTHON" -m pytest -q -m gpu -n 15 -p no:cacheprovider --junitxml="$OUT/tests.xml" tests/cuda
    else
        step tests.log 330 "$PYTHON" -m pytest -q -m "not gpu" -p no:cacheprovider --junitxml="$OUT/tests.xml" \
            tests/cuda/test_kernels.py -k "softmax or every_launcher"
    fi
    tool memcheck.txt 150 compute-sanitizer --tool memcheck --error-exitcode 9 "$PYTHON" tools/gpu_kernels.py
    tool racecheck.txt 110 compute-sanitizer --tool racecheck --error-exitcode 9 "$PYTHON" tools/gpu_kernels.py --shared
    ;;
speed) # about 8 minutes
    nets=lenet,resnet18,bert,lstm,ctr extra=
    [ "$DEVICE" = shim ] && nets=ctr extra="--only paddle --batch 4 --steps 1 --rounds 1"
    # shellcheck disable=SC2086 # several words
    step speed.txt 560 "$PYTHON" benches/bench_gpu.py --device "$DEVICE" --nets $nets --json "$OUT/speed.json" $extra
    ;;
profile) # about 6 minutes
    net=bert extra=
    [ "$DEVICE" = shim ] && net=ctr extra="--batch 4 --rounds 1"
    # shellcheck disable=SC2086
    step host.txt 150 "$PYTHON" benches/bench_gpu.py --device "$DEVICE" --only paddle --nets $net --steps 2 \
        --host-profile "$OUT/host.prof" $extra
    # shellcheck disable=SC2086
    tool ncu.csv 300 ncu --clock-control none --target-processes all --launch-skip 300 --launch-count 120 --csv \
        --metrics gpu__time_duration.sum,dram__throughput.avg.pct_of_peak_sustained_elapsed,sm__throughput.avg.pct_of_peak_sustained_elapsed \
        "$PYTHON" benches/bench_gpu.py --device "$DEVICE" --only paddle --nets $net --steps 2 $extra
    ;;
*)
    echo "usage: $0 check|speed|profile"
    exit 2
    ;;
esac
exit $failed
