#include "coordinator/cli/help_examples.h"

#include "absl/strings/str_cat.h"

namespace longhaul::cli {
namespace {

struct Row {
  absl::string_view of, command, about;
};

constexpr Row kRows[] = {
    {"submit", "longhaul submit -f job.yaml --dry-run", "Check it; show it with every default"},
    {"submit", "longhaul submit -f job.yaml --wait", "Submit it and wait for its end"},
    {"submit", "longhaul submit -f job.yaml --set name=shorter --set train.steps=100",
     "Change single values"},
    {"submit", "longhaul submit -f job.yaml --set name=onward --from /tmp/quickstart-model",
     "From a folder here, which is sent; a Hugging Face model's does as well"},
    {"submit", "longhaul spec init | longhaul submit -f - --set name=piped", "From standard input"},
    {"list", "longhaul list --limit 5", "The five newest"},
    {"list", "longhaul list -o json", "For scripts"},
    {"get", "longhaul get quickstart", "State, losses, bytes, pools; what it waits for"},
    {"get", "longhaul get quickstart -o yaml", "All of it"},
    {"watch", "longhaul watch quickstart", "A bar, until it has ended"},
    {"watch", "longhaul watch quickstart -o jsonl", "A line of JSON for each update"},
    {"wait", "longhaul wait quickstart --timeout 2h",
     "Exits with 3 if the job has not ended after two hours"},
    {"wait", "longhaul wait quickstart && echo done", "Exit code 0 only if it has completed"},
    {"logs", "longhaul logs quickstart --tail 20", "The newest lines of each pool of the job"},
    {"logs", "longhaul logs site-a --follow --timeout 2s",
     "Of one pool, as they come; for two seconds"},
    {"cancel", "longhaul cancel piped --reason 'wrong data'", "The reason is kept with the job"},
    {"pause", "longhaul pause quickstart --reason maintenance",
     "Its pools finish their step, then stop"},
    {"pause", "longhaul pause quickstart --wait", "Until they have"},
    {"resume", "longhaul resume quickstart", "From its last commit, with the pools that there are"},
    {"pools", "longhaul pools", "Which sites are there, and what they do"},
    {"checkpoints", "longhaul checkpoints quickstart -o json", "Their paths and tensors"},
    {"checkpoint", "longhaul checkpoint quickstart", "Of a job that runs, beside its own"},
    {"download", "longhaul download quickstart --out quickstart-final",
     "The newest checkpoint; the same again goes on where it stopped"},
    {"delete", "longhaul delete piped", "Its files too; its name is free again"},
    {"events", "longhaul events quickstart", "Who joined, was late, was set aside, and why"},
    {"events", "longhaul events quickstart --follow -o jsonl",
     "A line of JSON for each, until the job has ended"},
    {"export", "longhaul export quickstart --out quickstart-hf", "For transformers"},
    {"eval", "longhaul eval quickstart-hf --data /usr/share/common-licenses --max-tokens 20000",
     "Loss, perplexity, bits a byte; of the first tokens"},
    {"eval", "longhaul eval quickstart-final --data /usr/share/common-licenses/BSD -o json",
     "Of a checkpoint's folder; for scripts"},
    {"sample", "longhaul sample quickstart-hf --prompt 'Once upon'", "Text as it is made"},
    {"sample", "longhaul sample quickstart-final --prompt 'Once' --greedy --max-tokens 40",
     "The same text each time"},
    {"data check", "longhaul data check /usr/share/common-licenses", "Before it is trained on"},
    {"certs init", "longhaul certs init", "Once, for all programs of a coordinator"},
    {"certs issue", "longhaul certs issue pool site-a", "For the worker of pool site-a"},
    {"certs issue", "longhaul certs issue coordinator lab.example.org --host 192.0.2.7",
     "For the coordinator, under every name that is dialled"},
    {"top", "longhaul top", "q ends it; without a terminal it prints once"},
    {"spec explain", "longhaul spec explain", "The parts of a spec"},
    {"spec explain", "longhaul spec explain sync.up.codec", "One field"},
    {"spec init", "longhaul spec init > job.yaml", "Then change it, and submit it"},
    {"spec init", "longhaul spec init --from two-regions", "Two sites far apart"},
    {"doctor", "longhaul doctor", "Everything; exit code 0 if nothing is wrong"},
    {"doctor", "longhaul doctor --data-dir /var/tmp -o json", "For scripts"},
    {"contexts", "longhaul contexts", "The current one has a star"},
    {"version", "longhaul version", "Of this program; `longhaul doctor` shows the coordinator's"},
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
  context: lab                  # taken when --context and LONGHAUL_CONTEXT name none
  contexts:
    lab:
      server: lab.example.org:7070
      tls: {ca: ca.pem, certificate: me.pem, key: me-key.pem}
    here: {server: localhost:7070})");
  }
  return text;
}

}  // namespace longhaul::cli
