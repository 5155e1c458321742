#include "coordinator/cli/help_examples.h"

#include "absl/strings/str_cat.h"

namespace longhaul::cli {
namespace {

struct Row {
  absl::string_view of, command, about;
};

constexpr Row kRows[] = {
    {"submit", "longhaul submit -f job.yaml --dry-run",
     "Check the spec and show it with every default"},
    {"submit", "longhaul submit -f job.yaml --wait", "Submit and wait until the job has ended"},
    {"submit", "longhaul submit -f job.yaml --set name=shorter --set train.steps=100",
     "Change single values"},
    {"submit", "longhaul submit -f job.yaml --set name=onward --from /tmp/quickstart-model",
     "Upload a local folder and start from it; a Hugging Face model works as well"},
    {"submit", "longhaul submit -f job.yaml --alone site-a",
     "What one pool reaches without the others; then `longhaul compare`"},
    {"submit", "longhaul spec init | longhaul submit -f - --set name=piped", "From standard input"},
    {"list", "longhaul list --limit 5", "The five newest jobs"},
    {"list", "longhaul list -o json", "For scripts"},
    {"get", "longhaul get quickstart", "State, losses, bytes, pools; what it waits for"},
    {"get", "longhaul get quickstart -o yaml", "Everything, as YAML"},
    {"watch", "longhaul watch quickstart", "A progress bar until the job has ended"},
    {"watch", "longhaul watch quickstart -o jsonl", "One JSON object per update"},
    {"wait", "longhaul wait quickstart --timeout 2h",
     "Exits with 3 if the job has not ended after two hours"},
    {"wait", "longhaul wait quickstart && echo done", "Exit code 0 only if the job has completed"},
    {"logs", "longhaul logs quickstart --tail 20", "The newest lines of each pool of the job"},
    {"logs", "longhaul logs site-a --follow --timeout 2s",
     "New lines of one pool, for two seconds"},
    {"cancel", "longhaul cancel piped --reason 'wrong data'", "The reason is kept with the job"},
    {"pause", "longhaul pause quickstart --reason maintenance",
     "Pools finish their step, then stop"},
    {"pause", "longhaul pause quickstart --wait", "Wait until they have stopped"},
    {"resume", "longhaul resume quickstart",
     "Continue from the last commit with the available pools"},
    {"pools", "longhaul pools", "Which sites are connected, and what they do"},
    {"checkpoints", "longhaul checkpoints quickstart -o json", "With paths and tensors"},
    {"checkpoint", "longhaul checkpoint quickstart", "An additional checkpoint of a running job"},
    {"download", "longhaul download quickstart --out quickstart-final",
     "The newest checkpoint; run it again to resume"},
    {"compare", "longhaul compare quickstart shorter",
     "What differs in their specs, and their losses at equal tokens"},
    {"compare", "longhaul compare quickstart", "The curves of one job, in the terminal"},
    {"delete", "longhaul delete piped", "Also removes its files and frees its name"},
    {"events", "longhaul events quickstart",
     "Which pools joined, were late or were set aside, and why"},
    {"events", "longhaul events quickstart --follow -o jsonl",
     "One JSON object per event, until the job has ended"},
    {"export", "longhaul export quickstart --out quickstart-hf", "For transformers"},
    {"eval", "longhaul eval quickstart-hf --data /usr/share/common-licenses --max-tokens 20000",
     "Loss, perplexity and bits per byte of the first tokens"},
    {"eval", "longhaul eval quickstart --data /usr/share/common-licenses/BSD",
     "The newest checkpoint of a job; it is downloaded once"},
    {"eval", "longhaul eval quickstart-final --data /usr/share/common-licenses/BSD -o json",
     "From the folder of a checkpoint; for scripts"},
    {"sample", "longhaul sample quickstart-hf --prompt 'Once upon'",
     "Print text as it is generated"},
    {"sample", "longhaul sample quickstart --prompt 'Once'", "With the newest checkpoint of a job"},
    {"sample", "longhaul sample quickstart-final --prompt 'Once' --greedy --max-tokens 40",
     "The same text each time"},
    {"data check", "longhaul data check /usr/share/common-licenses",
     "Check data before training on it"},
    {"graph import edges",
     "longhaul graph import edges --nodes 7 --edges deploy/examples/graph/edges.csv "
     "--features deploy/examples/graph/features.csv --labels deploy/examples/graph/labels.csv "
     "--train deploy/examples/graph/train.csv --reverse-edges --out graph",
     "CSV files without headings"},
    {"graph import ogb", "longhaul graph import ogb ogbn_arxiv --reverse-edges --out arxiv",
     "A graph that OGB's Python package downloaded"},
    {"graph import graphbolt",
     "longhaul graph import graphbolt my-dataset --directed --out my-graph",
     "A folder with metadata.yaml"},
    {"graph predict", "longhaul graph predict packages --graph site --split test --out predicted",
     "With the newest checkpoint of a job: predictions.csv has your own ids"},
    {"graph predict",
     "longhaul graph predict packages-final --graph site --embeddings --out embedded -o json",
     "From the folder of a checkpoint; for scripts"},
    {"graph predict",
     "longhaul graph predict links --graph linked --pairs pairs.csv --out predicted",
     "Scores of pairs of nodes, with a job that predicts links"},
    {"graph info", "longhaul graph info graph",
     "Sizes, direction and digests of an imported graph"},
    {"plan",
     "longhaul plan -f deploy/examples/two_regions.yaml --sites "
     "deploy/examples/sites/two_regions.yaml",
     "Memory, time, utilization, and what to change"},
    {"plan",
     "longhaul plan -f deploy/examples/two_regions.yaml --sites "
     "deploy/examples/sites/two_regions.yaml "
     "--set sync.h=100 --utilization 0.95 -o json",
     "With another setting; for scripts"},
    {"plan", "longhaul plan -f job.yaml --link-mbps 100",
     "With the pools of the coordinator, as fast as in their newest job"},
    {"simulate job",
     "longhaul simulate job -f deploy/examples/two_regions.yaml --pools 2,10,100 --link-mbps 1000",
     "How a job grows with its pools"},
    {"simulate job",
     "longhaul simulate job -f deploy/examples/two_regions.yaml --pools 20 "
     "--faults deploy/examples/faults.csv --seed 3 -o json",
     "With faults, for scripts"},
    {"simulate partition",
     "longhaul simulate partition --params 20e9 --layers 44 --preset frontier3 --node 8 "
     "--ranks 256 --accumulation 4 --links 200,75,12.5",
     "What each level of the links carries, and what a rank keeps"},
    {"simulate utilization",
     "longhaul simulate utilization --params 1e9 --layers 24 --step-time 0.1 --method overlap-fp4 "
     "--targets 0.5,0.9,0.99",
     "The link that 4 bits and an overlap of one step need"},
    {"simulate utilization",
     "longhaul simulate utilization --params 1e9 --layers 24 --step-time 0.1 --method dp "
     "--bandwidth 10",
     "What data parallelism makes of 10 Gbit/s"},
    {"simulate offload", "longhaul simulate offload --point 2=1.336 --point 6=1.481",
     "The best stride, from two measured times"},
    {"simulate gather-requests", "longhaul simulate gather-requests --dim 129 --aligned",
     "Without --aligned it is nearly twice as much"},
    {"simulate cores", "longhaul simulate cores --host",
     "What Longhaul's kernels are bound by on this machine"},
    {"simulate cores",
     "longhaul simulate cores --counters deploy/examples/cores/counters.csv "
     "--predict deploy/examples/cores/clocks.csv",
     "From counters of one run"},
    {"simulate cores",
     "longhaul simulate cores --calibrate deploy/examples/cores/times.csv --core out-of-order "
     "--predict deploy/examples/cores/clocks.csv",
     "From times at two clocks, of a core that hides a part of its waits"},
    {"simulate cores",
     "longhaul simulate cores --calibrate deploy/examples/cores/times.csv -o json",
     "From times at two clocks, for scripts"},
    {"certs init", "longhaul certs init", "Once per coordinator"},
    {"certs issue", "longhaul certs issue pool site-a", "For the worker of pool site-a"},
    {"certs issue", "longhaul certs issue coordinator lab.example.org --host 192.0.2.7",
     "For the coordinator, with every name that clients use"},
    {"certs kit", "longhaul certs kit site-b --coordinator hub.example:7070",
     "For a site: it needs no other file"},
    {"certs revoke", "longhaul certs revoke site-b", "A key was lost, or a site left"},
    {"tokens add", "longhaul tokens add bob submitter", "Next to the coordinator's file of users"},
    {"tokens add", "longhaul tokens add prometheus viewer --tokens /etc/longhaul/tokens",
     "For a file elsewhere"},
    {"top", "longhaul top", "q quits; without a terminal it prints once"},
    {"spec explain", "longhaul spec explain", "The parts of a spec"},
    {"spec explain", "longhaul spec explain sync.up.codec", "One field"},
    {"spec init", "longhaul spec init > job.yaml", "Edit the file, then submit it"},
    {"spec init", "longhaul spec init --from two-regions", "Two sites far apart"},
    {"doctor", "longhaul doctor", "Check everything; exit code 0 if nothing is wrong"},
    {"doctor", "longhaul doctor --data-dir /var/tmp -o json", "For scripts"},
    {"doctor", "longhaul doctor quickstart", "Whether the job trains as it should"},
    {"contexts", "longhaul contexts", "A star marks the current one"},
    {"version", "longhaul version",
     "Version of this program; `longhaul doctor` shows the coordinator's"},
    {"completion", "source <(longhaul completion bash)", "In ~/.bashrc"},
};

}  // namespace

std::vector<Example> ExamplesOf(absl::string_view command) {
  std::vector<Example> examples;
  for (const Row& row : kRows) {
    if (row.of == command) examples.push_back({std::string(row.command), std::string(row.about)});
  }
  return examples;
}

std::string ExamplesText(absl::string_view command) {
  std::string text;
  for (const Example& example : ExamplesOf(command)) {
    absl::StrAppend(&text, text.empty() ? "Examples:" : "", "\n  ", example.command, "\n      ",
                    example.about);
  }
  if (command == "contexts") {
    absl::StrAppend(&text, R"(

~/.config/longhaul/config.yaml:
  context: lab                  # used unless --context or LONGHAUL_CONTEXT names another
  contexts:
    lab:
      server: lab.example.org:7070
      tls: {ca: ca.pem, certificate: me.pem, key: me-key.pem}
    here: {server: localhost:7070})");
  }
  return text;
}

}  // namespace longhaul::cli
