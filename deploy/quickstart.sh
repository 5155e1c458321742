#!/usr/bin/env bash
# Trains a small model on two pools on this machine, from nothing: installs what is missing, builds, starts a coordinator
# and two pools on localhost, submits deploy/examples/quickstart.yaml (or packages.yaml), shows the progress and a report.
#   deploy/quickstart.sh [--example text|graph] [--data PATH] [--steps N] [--ranks N] [--json FILE] [--set PATH=VALUE]...
#                        [--compare-alone] [--dry-run] [--yes] [--skip-setup]
#     --example NAME  text: a language model (default). graph: the sections of Debian's packages, whose graph is made from
#                     what apt knows on this machine; each site also trains alone, continues with the
#                     shared model, and both train with the whole graph
#     --data PATH     text file, or folder of text files, to train on (default: English text found on the machine)
#     --steps N       inner steps instead of those of the example; of text a tenth of them, 100 at most, warm up
#     --ranks N       ranks of each pool (default: 1)
#     --json FILE     write the report as JSON too
#     --set P=V       any other field of the job, for example sync.h=100; its name stays
#     --compare-alone then train one pool alone, for as many steps, and show what the second one brought
#     --dry-run       show the job with every default, and train nothing
#     --yes           fetch English text without asking, if there is none
#     --skip-setup    install, fetch and build nothing; use build/bin as it is
# CUDA is installed and compiled where the machine has an NVIDIA GPU, or with LONGHAUL_CUDA=ON; a build that has it keeps it.
# Ctrl-C stops everything that it started. State stays in RUN_DIR (default run), quickstart-*/: the checkpoint, the logs.
set -euo pipefail
caller=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD
say() { printf '%s\n' "$*" >&2; }
fail() { say "quickstart: $*"; exit 1; }
usage() { sed -n '2,19s/^# \{0,1\}//p' "$root/deploy/quickstart.sh" >&2; exit "$1"; }

example=text data= json= alone= ranks=1 setup=1 yes= dry_run= steps=() warm=() overrides=()
warm_up() { local tenth=$(( ${1} / 10 )); echo $(( tenth < 100 ? tenth : 100 )); }
while [ $# -gt 0 ]; do
  case $1 in
    --example) example=${2:?--example needs text or graph}; shift 2 ;;
    --data) data=${2:?--data needs a path}; shift 2 ;;
    --steps)
      steps=(--set "train.steps=${2:?--steps needs a number}")
      # What is no number is refused with the job.
      case $2 in *[!0-9]*|????????????????*) ;; *) warm=(--set "inner.schedule.warmup_steps=$(warm_up "10#$2")") ;; esac
      shift 2 ;;
    --ranks) ranks=${2:?--ranks needs a number}; shift 2 ;;
    --json) json=${2:?--json needs a file}; shift 2 ;;
    --set) overrides+=(--set "${2:?--set needs PATH=VALUE}"); shift 2 ;;
    --compare-alone) alone=1; shift ;;
    --dry-run) dry_run=1; shift ;;
    --yes) yes=1; shift ;;
    --skip-setup) setup=; shift ;;
    -h|--help) usage 0 ;;
    *) say "quickstart: unknown argument '$1'"; usage 4 ;;
  esac
done
case $json in ''|/*) ;; *) json=$caller/$json ;; esac
case $data in ''|/*) ;; *) data=$caller/$data ;; esac
case $example in text|graph) ;; *) say "quickstart: --example '$example' is neither text nor graph"; usage 4 ;; esac
[ "$example" = text ] || [ -z "$data" ] || { say "quickstart: --data is text, and --example graph makes a graph of its own"; usage 4; }
case $ranks in [1-9]|[1-9][0-9]) ;; *) say "quickstart: --ranks '$ranks' is not a number from 1 to 99"; usage 4 ;; esac
build=${BUILD_DIR:-build}

if [ -n "$setup" ]; then
  cuda=${LONGHAUL_CUDA:-$(sed -n 's/^LONGHAUL_CUDA:BOOL=//p' "$build/CMakeCache.txt" 2>/dev/null || true)}
  [ -n "$cuda" ] || { [ -e /dev/nvidia0 ] && cuda=ON || cuda=OFF; }
  if [ "$cuda" = OFF ]; then deploy/setup.sh --cpu; else deploy/setup.sh; fi
  say "quickstart: building (the first time takes a few minutes)"
  mkdir -p "$build"
  cmake -S . -B "$build" -G Ninja -DLONGHAUL_CUDA="$cuda" >"$build/configure.log" 2>&1 || { cat "$build/configure.log" >&2; fail "configuring failed"; }
  cmake --build "$build" -j "$(nproc)" --target longhaul-coordinator longhaul-worker longhaul-rank longhaul \
    longhaul-lm >&2
fi
case $build in /*) bin=$build/bin ;; *) bin=$root/$build/bin ;; esac
[ -x "$bin/longhaul-coordinator" ] || fail "no programs in $bin: run without --skip-setup"

# English text of at least 1 MB: Perl's manual, from the package perl-doc.
find_text() {
  local folder
  for folder in /usr/share/perl/5*/pod; do
    if [ "$(du -skL "$folder" 2>/dev/null | cut -f1)" -ge 1000 ] 2>/dev/null; then echo "$folder"; return; fi
  done
}
may_fetch_text() {
  [ -z "$yes" ] || return 0
  [ -t 0 ] && [ -t 2 ] || return 1
  local answer
  read -r -p "quickstart: there is no text to train on. Install the Debian package perl-doc (8 MB)? [y/N] " answer
  case $answer in y|Y|yes) ;; *) return 1 ;; esac
}
fetch_text() {
  [ -n "$setup" ] && [ "$(id -u)" = 0 ] && may_fetch_text || return 0
  apt-get update -qq >&2 && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends perl-doc >/dev/null
  find_text
}
choose_text() {
  if [ -z "$data" ]; then
    data=$(find_text)
    [ -n "$data" ] || data=$(fetch_text)
    [ -n "$data" ] || fail "no text to train on: give --data PATH, or --yes to install the Debian package perl-doc (as root, without --skip-setup)"
    say "quickstart: training on $data ($(du -shL "$data" | cut -f1) of English documentation); --data PATH takes your own text"
  fi
  [ -e "$data" ] || fail "--data $data does not exist"
  spec=(-f deploy/examples/quickstart.yaml --set "data.text.path=$(realpath "$data")" "${warm[@]}")
}
make_graphs() {  # A graph for each site, in its data folder, and the whole one.
  local made=$state/made place file flags
  say "quickstart: making a graph of the packages that apt knows on this machine"
  "$python" -B deploy/graphs/debian_packages.py --out "$made" >&2 || fail "no graph; run apt-get update as root once"
  for place in site-a site-b whole; do
    mkdir -p "$state/$place"
    flags=(--nodes "$(wc -l <"$made/$place/ids.txt")" --ids "$made/$place/ids.txt" --class-names "$made/$place/classes.txt")
    for file in edges features labels train valid test; do flags+=("--$file" "$made/$place/$file.npy"); done
    "$bin/longhaul" graph import edges "${flags[@]}" --reverse-edges --out "$state/$place/graph" >"$state/$place/import.txt" \
      || fail "no graph: $(cat "$state/$place/import.txt")"
  done
  spec+=(--set "model.graph_sage.classes=$(wc -l <"$made/whole/classes.txt")")
  rm -r "$made"
}
if [ "$example" = text ]; then
  choose_text
else
  python=$(deploy/setup.sh --print-venv)/bin/python
  [ -x "$python" ] || fail "no $python: run without --skip-setup"
  spec=(-f deploy/examples/packages.yaml)
fi

state=${RUN_DIR:-$root/run}/quickstart-$(date +%Y%m%d-%H%M%S)-$$
mkdir -p "$state"
pids=()
stop() {
  trap - EXIT INT TERM
  [ ${#pids[@]} -eq 0 ] || kill -TERM "${pids[@]}" 2>/dev/null || true
  local deadline=$((SECONDS + 10)) pid
  for pid in "${pids[@]}"; do
    while kill -0 "$pid" 2>/dev/null && [ $SECONDS -lt $deadline ]; do sleep 0.1; done
    kill -KILL "$pid" 2>/dev/null || true
  done
}
trap 'stop' EXIT
trap 'say ""; say "quickstart: stopped"; stop; exit 130' INT TERM

submit() {  # NAME FLAG...
  "$bin/longhaul" --server "$server" submit "${spec[@]}" "${steps[@]}" "${overrides[@]}" "${@:2}" --set "name=$1"
}
wait_for_file() {  # FILE PID NAME
  local deadline=$((SECONDS + 30))
  until [ -s "$1" ]; do
    kill -0 "$2" 2>/dev/null || fail "the $3 ended; its log: $state/$3.log: $(tail -n 3 "$state/$3.log")"
    [ $SECONDS -lt $deadline ] || fail "the $3 did not start within 30 s; its log: $state/$3.log"
    sleep 0.05
  done
}

"$bin/longhaul-coordinator" --listen 127.0.0.1:0 --http-listen 127.0.0.1:0 --data-dir "$state/coordinator" \
  --ready-file "$state/coordinator.ready" >"$state/coordinator.log" 2>&1 </dev/null &
pids+=($!)
wait_for_file "$state/coordinator.ready" "${pids[0]}" coordinator
server=$(sed -n 's/^grpc=//p' "$state/coordinator.ready")
say "quickstart: coordinator at $server, status page http://$(sed -n 's/^http=//p' "$state/coordinator.ready")/, logs in $state"
if [ -n "$dry_run" ]; then
  submit quickstart --dry-run
  exit
fi
[ "$example" = text ] || make_graphs
threads=$(( ($(nproc) + 1) / 2 / ranks ))  # Of each rank; the pools share the machine.
for pool in site-a site-b; do
  own_data=()
  [ "$example" = text ] || own_data=(--data-dir "$state/$pool")
  "$bin/longhaul-worker" --coordinator "$server" --pool "$pool" --ranks "$ranks" --threads "$(( threads > 0 ? threads : 1 ))" --drain-seconds 2 \
    --work-dir "$state/work" "${own_data[@]}" \
    >"$state/$pool.log" 2>&1 </dev/null &
  pids+=($!)
done

keep_outcome() {  # NAME STATUS: in NAME.json and NAME.checkpoints.json
  local name=$1 status=$2
  "$bin/longhaul" --server "$server" get "$name" -o json >"$state/$name.json" || status=$?
  "$bin/longhaul" --server "$server" checkpoints "$name" -o json >"$state/$name.checkpoints.json" || status=$?
  [ $status -eq 0 ] || fail "the job did not complete; see $state/$name.json and the logs beside it"
}
run_job() {  # NAME FLAG...
  local status=0
  submit "$@" --wait --follow >"$state/$1.out" || status=$?
  keep_outcome "$1" $status
}
run_job quickstart
if [ "$example" = text ]; then
  report=(quickstart_report.py "$state/quickstart.json" "$state/quickstart.checkpoints.json")
  if [ -n "$alone" ]; then
    say "quickstart: the same steps on one pool alone"
    run_job quickstart-alone --alone site-a
    report+=(--alone "$state/quickstart-alone.json" "$state/quickstart-alone.checkpoints.json")
  fi
  # A sample of what it writes, no longer than what it was trained on; where there is none the report says why.
  checkpoint=$(sed -n 's/^ *"path": "\(.*\)",\{0,1\}$/\1/p' "$state/quickstart.checkpoints.json" | tail -n 1)
  "$bin/longhaul" sample "$checkpoint" --prompt "The " --max-tokens 120 --temperature 0.7 --seed 1 -o json >"$state/sample.json" 2>/dev/null || true
  [ ! -s "$state/sample.json" ] || report+=(--sample "$state/sample.json")
  python=/usr/bin/python3
else
  at_each_site() {  # NAME FLAG...: both at the same time
    local pool status
    for pool in site-a site-b; do submit "$1-$pool" --alone "$pool" "${@:2}" >"$state/$1-$pool.out" || fail "see $state/$1-$pool.out"; done
    for pool in site-a site-b; do
      status=0
      "$bin/longhaul" --server "$server" wait "$1-$pool" >>"$state/$1-$pool.out" || status=$?
      keep_outcome "$1-$pool" $status
    done
  }
  say "quickstart: 100 steps more of the shared model at each site"
  at_each_site home --from quickstart --set train.steps=100
  say "quickstart: the same steps as together at each site alone"
  at_each_site alone
  say "quickstart: the same steps together, where both sites know the whole graph"
  run_job whole --set "data.graph.path=$state/whole/graph"
  report=(quickstart_graph_report.py "$state")
fi
"$python" -B "deploy/${report[0]}" "${report[@]:1}" ${json:+--json "$json"}
stored=${state#"$root"/}/coordinator
cat <<END

What next:
  The page of this job, with its loss curve, and the same server for others:
    $build/bin/longhaul-coordinator \\
      --data-dir $stored
    then http://127.0.0.1:7071/
  A pool on another site; with TLS see docs/deploy/two-machines.md:
    $build/bin/longhaul-worker --coordinator HOST:7070 --pool NAME
  A job of your own:
    $build/bin/longhaul spec init > job.yaml
    $build/bin/longhaul submit -f job.yaml --wait
END
