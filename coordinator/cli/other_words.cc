#include "coordinator/cli/other_words.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "common/base/names.h"

namespace longhaul::cli {
namespace {

// Verbs of jobs first: `job VERB` and `VERB job` mean the same.
constexpr OtherWord kJobVerbs[] = {
    {"list ls ps jobs runs squeue sacct qstat history all", "list", "lists jobs"},
    {"get status describe show inspect info view details desc", "get JOB", "shows a job"},
    {"cancel stop kill abort terminate end scancel qdel", "cancel JOB",
     "stops a job permanently; `longhaul pause JOB` until `longhaul resume JOB`"},
    {"pause suspend hold halt freeze", "pause JOB",
     "releases a job's pools until `longhaul resume JOB`"},
    {"resume restart unpause unfreeze continue retry", "resume JOB", "continues a paused job"},
    {"delete rm remove del destroy purge prune", "delete JOB",
     "removes a job that has ended, with its files"},
    {"submit run create start apply launch train sbatch qsub srun add new queue finetune",
     "submit -f job.yaml", "submits a job; `longhaul spec init > job.yaml` writes one"},
    {"watch follow attach monitor progress", "watch JOB", "shows the progress of a job"},
    {"wait await join", "wait JOB", "waits until a job has ended"},
    {"logs log tail output stdout", "logs JOB --follow", "shows log lines of a job's pools"},
    {"events event audit", "events JOB", "shows what happened to a job"},
    {"compare diff cmp", "compare JOB OTHER", "compares the losses and specs of jobs"},
    {"metrics curves losses loss plot graph scalars stats tensorboard", "compare JOB",
     "plots the losses of a job"},
    {"export convert save", "export JOB --out DIR", "writes a model for transformers"},
    {"download pull fetch cp copy", "download JOB --out DIR", "copies the newest checkpoint"},
    {"sample generate infer predict complete chat prompt", "sample JOB --prompt TEXT",
     "continues a prompt"},
    {"eval evaluate test score perplexity", "eval JOB --data PATH", "computes the loss on a text"},
};

constexpr OtherWord kPoolVerbs[] = {
    {"list ls get show describe status info inspect pools nodes sites workers clusters sinfo",
     "pools", "lists pools"},
    {"logs log tail", "logs POOL", "shows the newest log lines of a pool"},
};

constexpr OtherWord kCheckpointVerbs[] = {
    {"list ls get show describe ckpts", "checkpoints JOB", "lists the checkpoints of a job"},
    {"create save new add make", "checkpoint JOB", "writes a checkpoint of a running job"},
    {"download pull fetch cp copy", "download JOB --out DIR", "copies the newest checkpoint"},
    {"export convert", "export JOB --out DIR", "writes a model for transformers"},
};

// Words that stand alone.
constexpr OtherWord kWords[] = {
    {"init template scaffold example examples generate-spec", "spec init > job.yaml",
     "writes a job spec to start from"},
    {"explain schema fields options reference", "spec explain", "explains the job spec"},
    {"validate lint verify dry-run dryrun check", "submit -f job.yaml --dry-run",
     "checks a job spec; `longhaul data check PATH` checks data"},
    {"dataset datasets", "data check PATH", "checks training data"},
    {"ping health healthcheck diagnose debug connect", "doctor",
     "finds problems with this machine and the coordinator"},
    {"config context ctx use login profile profiles", "contexts",
     "lists the coordinators in your configuration file"},
    {"cert certificate certificates tls ca", "certs issue KIND NAME", "creates a certificate"},
    {"ui dashboard gui web htop page", "top", "shows jobs and pools live in the terminal"},
    {"autocomplete completions", "completion bash", "prints a completion script"},
    {"upload push import", "submit -f job.yaml --from DIR",
     "uploads a checkpoint or model, and starts a job from it"},
};

struct Noun {
  absl::string_view words;
  absl::Span<const OtherWord> verbs;
};

constexpr absl::string_view kJobNouns = "job jobs run runs experiment experiments";

const Noun kNouns[] = {
    {kJobNouns, kJobVerbs},
    {"pool pools site sites node nodes worker workers cluster clusters", kPoolVerbs},
    {"checkpoint checkpoints ckpt ckpts snapshot snapshots", kCheckpointVerbs},
};

bool HasWord(absl::string_view words, absl::string_view word) {
  const std::vector<absl::string_view> all = absl::StrSplit(words, ' ');
  return std::find(all.begin(), all.end(), word) != all.end();
}

const OtherWord* FindVerb(absl::Span<const OtherWord> rows, absl::string_view word) {
  const auto found = std::find_if(rows.begin(), rows.end(),
                                  [&](const OtherWord& row) { return HasWord(row.words, word); });
  return found == rows.end() ? nullptr : &*found;
}

const Noun* FindNoun(absl::string_view word) {
  const auto found = std::find_if(std::begin(kNouns), std::end(kNouns),
                                  [&](const Noun& noun) { return HasWord(noun.words, word); });
  return found == std::end(kNouns) ? nullptr : &*found;
}

// `name`: the word after them, if any.
std::string HintOf(const OtherWord& row, const std::string& name) {
  std::string hint = absl::StrCat("`longhaul ", row.command, "` ", row.what);
  if (IsName(name)) hint = absl::StrReplaceAll(hint, {{"JOB", name}, {"POOL", name}});
  return hint;
}

bool IsCommand(const CLI::App& app, absl::string_view word) {
  const std::vector<const CLI::App*> commands = app.get_subcommands({});
  return std::any_of(commands.begin(), commands.end(),
                     [&](const CLI::App* command) { return command->get_name() == word; });
}

// The words that are neither options nor the values of global ones.
std::vector<std::string> PlainWords(const CLI::App& app, const std::vector<std::string>& args) {
  std::vector<std::string> words;
  for (size_t i = 0; i < args.size(); ++i) {
    if (!absl::StartsWith(args[i], "-")) {
      words.push_back(args[i]);
    } else if (const CLI::Option* const option = app.get_option_no_throw(args[i]);
               option != nullptr && option->get_items_expected_min() > 0) {
      ++i;
    }
  }
  return words;
}

}  // namespace

absl::Span<const OtherWord> OtherWords() {
  static const std::vector<OtherWord> all = [] {
    std::vector<OtherWord> rows;
    for (const Noun& noun : kNouns) rows.insert(rows.end(), noun.verbs.begin(), noun.verbs.end());
    rows.insert(rows.end(), std::begin(kWords), std::end(kWords));
    return rows;
  }();
  return all;
}

std::string OtherWordHint(const CLI::App& app, const std::vector<std::string>& args) {
  std::vector<std::string> words = PlainWords(app, args);
  if (words.empty()) return "";
  words.resize(std::max<size_t>(words.size(), 3));
  const std::string first = absl::AsciiStrToLower(words[0]);
  const std::string second = absl::AsciiStrToLower(words[1]);
  // What follows a command of ours is its argument, unless it is a noun: `list pools`.
  if (const Noun* const noun = FindNoun(second); noun != nullptr) {
    if (const OtherWord* const row = FindVerb(noun->verbs, first)) return HintOf(*row, words[2]);
  }
  if (const Noun* const noun = FindNoun(first); noun != nullptr) {
    if (const OtherWord* const row = FindVerb(noun->verbs, second)) return HintOf(*row, words[2]);
    if (second.empty()) return HintOf(noun->verbs.front(), "");
    if (noun->words == kJobNouns) return HintOf(kJobVerbs[1], words[1]);
  }
  if (IsCommand(app, first)) return "";
  for (const OtherWord& row : OtherWords()) {
    if (HasWord(row.words, first)) return HintOf(row, words[1]);
  }
  return "";
}

}  // namespace longhaul::cli
