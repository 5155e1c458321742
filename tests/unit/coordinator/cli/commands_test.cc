// Commands that teach, look and complete, against a coordinator over real gRPC where they need one.
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>

#include "CLI/App.hpp"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "commands_fixture.h"
#include "common/config/job_spec.h"
#include "common/config/load.h"
#include "common/rpc/status_conversion.h"
#include "common/rpc/status_details.h"
#include "coordinator/cli/arguments.h"
#include "coordinator/cli/download.h"
#include "coordinator/cli/help_examples.h"
#include "coordinator/cli/other_words.h"
#include "coordinator/cli/spec_init.h"
#include "coordinator/cli/text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sample_job.h"
#include "tests/testing/temp_dir.h"

namespace longhaul::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST_F(CommandsTest, EveryCommandTeachesWithExamples) {
  Arguments unused;
  const auto app = MakeApp(unused);
  const std::function<void(const CLI::App&, const std::string&)> check =
      [&](const CLI::App& of, const std::string& prefix) {
        for (const CLI::App* command : of.get_subcommands({})) {
          const std::string name = prefix + command->get_name();
          if (command->get_subcommands({}).empty()) {
            EXPECT_FALSE(ExamplesOf(name).empty()) << name << " has no example in help_examples.cc";
          }
          check(*command, name + " ");
        }
      };
  check(*app, "");
  EXPECT_THAT(run_({"submit", "--help"}).out, HasSubstr("longhaul submit -f job.yaml --dry-run\n"));
}

// A number without a check of its own is refused with the words for flags, or cut to its type.
TEST_F(CommandsTest, ValuesOfOptionsAreNotRefusedAsThoseOfFlags) {
  Arguments unused;
  const auto app = MakeApp(unused);
  const std::function<void(const CLI::App&, const std::vector<std::string>&)> check =
      [&](const CLI::App& of, const std::vector<std::string>& words) {
        for (const CLI::Option* option : of.get_options()) {
          if (option->get_items_expected_max() == 0 || option->get_lnames().empty()) continue;
          std::vector<std::string> args = words;
          args.push_back(absl::StrCat("--", option->get_lnames()[0], "=maybe"));
          EXPECT_THAT(run_(args).err, Not(HasSubstr("neither true nor false")));
        }
        for (const CLI::App* command : of.get_subcommands({})) {
          std::vector<std::string> longer = words;
          longer.push_back(command->get_name());
          check(*command, longer);
        }
      };
  for (const CLI::App* command : app->get_subcommands({})) check(*command, {command->get_name()});
}

TEST_F(CommandsTest, HelpAndVersionAreUnderstoodAsWordsAndAsOptions) {
  EXPECT_EQ(run_({"help", "submit"}).out, run_({"submit", "--help"}).out);
  EXPECT_EQ(run_({"help"}).out, run_({"-h"}).out);
  EXPECT_EQ(run_({"submit", "job.yaml", "-h"}).exit, 0);
  const CliResult unknown = run_({"help", "submti"});
  EXPECT_EQ(unknown.exit, 4);
  EXPECT_THAT(unknown.err, AllOf(HasSubstr("no such command: submti"), HasSubstr("'submit'")));
  EXPECT_EQ(run_({"--version"}).out, run_({"version"}).out);
  EXPECT_EQ(run_({"--version", "-o", "json"}).out, run_({"version", "-o", "json"}).out);
}

TEST_F(CommandsTest, AWrongCommandLineIsExplained) {
  const CliResult stray = run_({"submit", "job.yaml"});
  EXPECT_EQ(stray.exit, 4);
  EXPECT_THAT(stray.err, HasSubstr("did you mean '--file job.yaml'?"));
  EXPECT_THAT(run_({"get", "j", "-o", "jsn"}).err,
              HasSubstr("'jsn' is not one of table, json, jsonl, yaml (did you mean 'json'?)"));
  EXPECT_THAT(run_({"list", "--server", "http://hub:7070"}).err, HasSubstr("without http://"));
  EXPECT_EQ(run_({"get", "-o", "json"}).envelope()["error"]["message"], "JOB is required");
  EXPECT_THAT(run_({"list", "--limt", "3"}).err, HasSubstr("did you mean '--limit'?"));
}

TEST_F(CommandsTest, WordsOfOtherToolsAreAnsweredWithTheCommand) {
  const auto hint = [&](const std::vector<std::string>& args) {
    const CliResult result = run_(args);
    EXPECT_EQ(result.exit, 4) << result.err;
    EXPECT_EQ(result.out, "");
    return result.err;
  };
  for (const std::vector<std::string>& args : {std::vector<std::string>{"jobs"},
                                               {"ls"},
                                               {"ps"},
                                               {"job", "list"},
                                               {"job", "ls"},
                                               {"list", "jobs"},
                                               {"--server", "hub:7070", "jobs", "list"},
                                               {"Jobs"},
                                               {"job"}}) {
    EXPECT_THAT(hint(args), HasSubstr("`longhaul list` lists jobs")) << args[0];
  }
  EXPECT_THAT(hint({"job", "list"}), HasSubstr("no such command: job "));
  for (const std::vector<std::string>& args : {std::vector<std::string>{"status", "tiny"},
                                               {"describe", "tiny"},
                                               {"show", "tiny"},
                                               {"describe", "job", "tiny"},
                                               {"job", "get", "tiny"},
                                               {"get", "job", "tiny"},
                                               {"job", "tiny"}}) {
    EXPECT_THAT(hint(args), HasSubstr("`longhaul get tiny` shows a job")) << args[0];
  }
  EXPECT_THAT(hint({"status"}), HasSubstr("`longhaul get JOB`"));
  for (const char* word : {"stop", "kill", "abort"}) {
    EXPECT_THAT(hint({word, "tiny"}), AllOf(HasSubstr("no such command: "),
                                            HasSubstr("`longhaul cancel tiny` stops a job"),
                                            HasSubstr("`longhaul pause tiny`")));
  }
  EXPECT_THAT(hint({"rm", "tiny"}), HasSubstr("`longhaul delete tiny`"));
  for (const std::vector<std::string>& args : {std::vector<std::string>{"pool", "list"},
                                               {"pools", "list"},
                                               {"list", "pools"},
                                               {"nodes"},
                                               {"workers"},
                                               {"pool"}}) {
    EXPECT_THAT(hint(args), HasSubstr("`longhaul pools` lists pools")) << args[0];
  }
  EXPECT_THAT(hint({"init"}), HasSubstr("`longhaul spec init"));
  EXPECT_THAT(hint({"metrics", "tiny"}), HasSubstr("`longhaul compare tiny`"));
  EXPECT_THAT(hint({"checkpoints", "ls", "tiny"}), HasSubstr("`longhaul checkpoints tiny`"));
  // A shell may run what a terminal shows: only names are repeated.
  EXPECT_THAT(hint({"rm", "$(id)"}), HasSubstr("`longhaul delete JOB`"));
  // A misspelt command, and one with too many arguments, are no words of other tools.
  EXPECT_THAT(hint({"sumbit"}), HasSubstr("did you mean 'submit'?"));
  EXPECT_THAT(hint({"pools", "tiny"}), HasSubstr("unexpected argument: tiny"));
}

TEST_F(CommandsTest, WordsOfOtherToolsNameCommandsThatExist) {
  Arguments unused;
  const auto app = MakeApp(unused);
  std::set<std::string> commands;
  for (const CLI::App* command : app->get_subcommands({})) commands.insert(command->get_name());
  for (const OtherWord& row : OtherWords()) {
    const std::string command(row.command.substr(0, row.command.find(' ')));
    EXPECT_TRUE(commands.contains(command)) << row.command;
    std::vector<std::string> said = absl::StrSplit(row.what, "`longhaul ");
    said.erase(said.begin());
    for (const std::string& other : said)
      EXPECT_TRUE(commands.contains(other.substr(0, other.find(' ')))) << row.what;
  }
}

TEST_F(CommandsTest, TheHelpPageIsGrouped) {
  const std::string page = run_({"--help"}).out;
  size_t at = 0;
  for (const char* group : {"\nJobs:\n", "\nResults:\n", "\nSpecs and data:\n",
                            "\nPools and this machine:\n", "\nExit codes"}) {
    const size_t found = page.find(group, at);
    ASSERT_NE(found, std::string::npos) << group << page;
    at = found;
  }
  const auto before = [&](const char* a, const char* b) { return page.find(a) < page.find(b); };
  EXPECT_TRUE(before("\n  submit ", "\n  delete ")) << page;
  EXPECT_TRUE(before("\n  delete ", "\n  download ")) << page;
  EXPECT_TRUE(before("\n  sample ", "\n  pools ")) << page;
  EXPECT_THAT(page, Not(HasSubstr("Others:")));
}

TEST_F(CommandsTest, APoolOfAJobThatHasEndedIsNotShownAsLost) {
  v1::Job job = SampleJob(v1::COMPLETED);
  for (v1::PoolProgress& pool : *job.mutable_pools()) pool.set_live(false);
  fake_.get = [&](const v1::GetJobRequest&, v1::GetJobResponse* response) {
    *response->mutable_job() = job;
    return grpc::Status::OK;
  };
  fake_.Start();
  EXPECT_TRUE(std::regex_search(RunCli({"get", "tiny"}).out, std::regex("east +ended +1")));
  job.set_state(v1::RUNNING);
  EXPECT_TRUE(std::regex_search(RunCli({"get", "tiny"}).out, std::regex("east +no +1")));
}

TEST_F(CommandsTest, ListShowsWhenAJobWasSubmitted) {
  ServeJobsAndPools();
  ManualClock clock(absl::FromUnixSeconds(1700000000) + absl::Hours(1));
  run_.time = &clock;
  const auto shows = [&](const char* date) {
    EXPECT_TRUE(
        std::regex_search(RunCli({"list"}).out, std::regex(absl::StrCat(" ", date, " +j-1"))));
  };
  shows("22:13Z");
  clock.Advance(absl::Hours(2));
  shows("Nov 14");
  clock.Advance(absl::Hours(24 * 60));
  shows("Nov 2023");
}

TEST_F(CommandsTest, SpecExplainShowsTheCommentsOfTheContract) {
  const CliResult all = run_({"spec", "explain"});
  EXPECT_EQ(all.exit, 0);
  EXPECT_THAT(all.out, AllOf(StartsWith("A job spec: group\n"), HasSubstr("  sync: group\n")));
  for (const absl::string_view line : absl::StrSplit(all.out, '\n')) EXPECT_LE(line.size(), 80u);
  const CliResult tau = run_({"spec", "explain", "sync.tau"});
  EXPECT_THAT(tau.out, AllOf(StartsWith("sync.tau: integer\n"), HasSubstr("Default: 1.")));
  const Json codec = run_({"spec", "explain", "sync.up.codec", "-o", "json"}).envelope()["data"];
  EXPECT_EQ(codec["type"], "choice");
  EXPECT_EQ(codec["values"][2]["name"], "e3m0");
  EXPECT_THAT(codec["values"][2]["description"].get<std::string>(), HasSubstr("4 bits"));
  const Json kinds = run_({"spec", "explain", "inner", "-o", "json"}).envelope()["data"]["fields"];
  EXPECT_EQ(kinds[0]["one_of"], "kind");
  const CliResult typo = run_({"spec", "explain", "sync.tua"});
  EXPECT_EQ(typo.exit, 4);
  EXPECT_THAT(typo.err, AllOf(HasSubstr("sync has no field tua"), HasSubstr("'tau'")));
  EXPECT_THAT(run_({"spec", "explain", "name.first"}).err, HasSubstr("has no fields; it is text"));
  EXPECT_THAT(run_({"spec", "explian"}).err, HasSubstr("did you mean 'explain'?"));
}

TEST_F(CommandsTest, EveryTemplateIsASpecThatIsAccepted) {
  for (const std::string& name : SpecTemplateNames()) {
    const CliResult result = run_({"spec", "init", "--from", name});
    EXPECT_EQ(result.exit, 0);
    const absl::StatusOr<v1::JobSpec> spec = ParseJobSpec(result.out);
    ASSERT_TRUE(spec.ok()) << name << ": " << spec.status();
    EXPECT_TRUE(ResolveJobSpec(*spec).ok()) << name;
  }
  EXPECT_EQ(run_({"spec", "init", "--from", "nothing"}).exit, 4);
}

TEST_F(CommandsTest, ADryRunNeedsNoCoordinator) {
  const std::string nobody = NobodyListensAt();
  const CliResult good = run_({"submit", "-f", "deploy/examples/quickstart.yaml", "--dry-run",
                               "--server", nobody, "-o", "json"});
  EXPECT_EQ(good.exit, 0);
  EXPECT_THAT(good.err, HasSubstr("checked by this program only"));
  EXPECT_EQ(good.envelope()["data"]["parameters"], 492384);
  EXPECT_EQ(good.envelope()["data"]["spec"]["sync"]["final_round"], true);
  const CliResult bad = run_({"submit", "-f", "deploy/examples/quickstart.yaml", "--dry-run",
                              "--server", nobody, "--set", "sync.tau=40"});
  EXPECT_EQ(bad.exit, 4);
  EXPECT_THAT(bad.err, HasSubstr("sync.tau: found 40"));
  // What is no dry run still needs one.
  EXPECT_EQ(run_({"submit", "-f", "deploy/examples/quickstart.yaml", "--server", nobody}).exit, 2);
}

TEST_F(CommandsTest, FiftyFaultsAreAllNamed) {
  run_.input = "name: a\nmodel: {transformer: {";
  for (int i = 0; i < 50; ++i) absl::StrAppend(&run_.input, i > 0 ? ", " : "", "wrong", i, ": 1");
  absl::StrAppend(&run_.input, "}}\n");
  const CliResult result = run_({"submit", "-f", "-", "--server", "localhost:1"});
  EXPECT_EQ(result.exit, 4);
  EXPECT_THAT(result.err, AllOf(HasSubstr("model.transformer.wrong9: unknown field"),
                                Not(HasSubstr("wrong10: unknown")), HasSubstr("and 40 more"),
                                HasSubstr("model.transformer.wrong49\n")));
  const CliResult json = run_({"submit", "-f", "-", "--server", "localhost:1", "-o", "json"});
  EXPECT_EQ(json.envelope()["error"]["fields"].size(), 50u);
}

TEST_F(CommandsTest, FaultsThatDidNotFitTheServersAnswerAreFoundHere) {
  fake_.submit = [](const v1::SubmitJobRequest& request, v1::SubmitJobResponse*) {
    std::vector<SpecViolation> all;
    (void)ResolveJobSpec(request.spec(), &all);
    return ToGrpcStatus(BadRequestError({{all[0].field, all[0].description}, {"", "and others"}}));
  };
  fake_.Start();
  run_.input = "name: A\nmodel: {transformer: {layers: -1, dim: -1}}\nsync: {tau: -3}\n";
  const CliResult result = RunCli({"submit", "-f", "-", "-o", "json"});
  EXPECT_EQ(result.exit, 4);
  const Json fields = result.envelope()["error"]["fields"];
  EXPECT_GT(fields.size(), 4u);
  EXPECT_EQ(fields[0]["field"], "name");
}

TEST_F(CommandsTest, TopPrintsOnceWithoutATerminalAndDrawsOnOne) {
  ServeJobsAndPools();
  const CliResult once = RunCli({"top"});
  EXPECT_EQ(once.exit, 0);
  EXPECT_THAT(once.out, AllOf(HasSubstr("quickstart"), HasSubstr("east"), Not(HasSubstr("\x1b"))));
  const Json data = RunCli({"top", "-o", "json"}).envelope()["data"];
  EXPECT_EQ(data["jobs"][0]["name"], "quickstart");
  EXPECT_EQ(data["pools"][0]["name"], "east");
  run_.terminal = true;
  const auto screen = std::make_unique<FakeTerminal>(20, 3);
  run_.screen = screen.get();
  const CliResult live = RunCli({"top"});
  EXPECT_EQ(live.exit, 0);
  EXPECT_THAT(live.out, AllOf(HasSubstr("\x1b[?1049h"), HasSubstr("\x1b[?25h\x1b[?1049l")));
  const std::string text = std::regex_replace(live.out, std::regex("\x1b\\[[?0-9]*[a-zA-Z]"), "");
  for (const absl::string_view line : absl::StrSplit(text, '\n')) EXPECT_LE(ColumnsOf(line), 20);
  size_t drawn = 0;
  for (size_t at = 0; (at = live.out.find("\x1b[H", at)) != std::string::npos; ++at) ++drawn;
  EXPECT_EQ(drawn, 3u);
}

// With names and hosts as long as they may be.
TEST_F(CommandsTest, TablesFitTheTerminal) {
  const std::string name(63, 'n'), id = "20260131-120000-0a1b2c";
  fake_.list = [&](const v1::ListJobsRequest&, v1::ListJobsResponse* response) {
    v1::Job* job = response->add_jobs();
    *job = SampleJob();
    job->set_id(id);
    job->mutable_spec()->set_name(name);
    return grpc::Status::OK;
  };
  fake_.pools = [&](const v1::ListPoolsRequest&, v1::ListPoolsResponse* response) {
    v1::Pool* pool = response->add_pools();
    pool->set_name(name);
    pool->set_state(v1::PARTICIPATING);
    pool->set_device(v1::CUDA);
    pool->set_ranks(8);
    pool->set_job_id(id);
    pool->set_job(name);
    pool->set_host(name + ".example.org");
    pool->mutable_progress()->set_inner_step(123'456);
    pool->mutable_progress()->set_tokens_per_second(42'100);
    return grpc::Status::OK;
  };
  fake_.Start();
  const std::string jobs = RunCli({"list"}).out, pools = RunCli({"pools"}).out;
  const auto widest = [](const std::string& text) {
    int columns = 0;
    for (const absl::string_view line : absl::StrSplit(text, '\n'))
      columns = std::max(columns, ColumnsOf(line));
    return columns;
  };
  run_.terminal = true;
  for (const int columns : {80, 100, 120}) {
    const auto screen = std::make_unique<FakeTerminal>(columns);
    run_.screen = screen.get();
    const std::string list = RunCli({"list"}).out;
    EXPECT_LE(widest(list), columns) << list;
    EXPECT_THAT(list, AllOf(HasSubstr(id), HasSubstr("nnn...")));
    const std::string shown = RunCli({"pools"}).out;
    EXPECT_LE(widest(shown), columns) << shown;
    EXPECT_THAT(shown, HasSubstr("PARTICIPATING"));
    // Scripts read what they always read.
    EXPECT_EQ(RunCli({"list", "-o", "json"}).envelope()["data"][0]["name"], name);
  }
  const auto wide = std::make_unique<FakeTerminal>(300);
  run_.screen = wide.get();
  EXPECT_EQ(RunCli({"list"}).out, jobs);
  EXPECT_EQ(RunCli({"pools"}).out, pools);
  const auto narrow = std::make_unique<FakeTerminal>(20);
  run_.screen = narrow.get();
  const std::string paragraph = RunCli({"list"}).out;
  EXPECT_THAT(paragraph, AllOf(HasSubstr("STATE  RUNNING\n"), HasSubstr("\n" + id + "\n"),
                               HasSubstr("\n" + name + "\n")));
}

TEST_F(CommandsTest, PoolsAreShownWithTheNameOfTheirJob) {
  fake_.pools = [](const v1::ListPoolsRequest&, v1::ListPoolsResponse* response) {
    for (const char* name : {"named", "of-an-older-coordinator", "idle"})
      response->add_pools()->set_name(name);
    response->mutable_pools(0)->set_job_id("20260131-120000-0a1b2c");
    response->mutable_pools(0)->set_job("quickstart");
    response->mutable_pools(1)->set_job_id("20260131-120000-3d4e5f");
    return grpc::Status::OK;
  };
  fake_.Start();
  const std::string table = RunCli({"pools"}).out;
  EXPECT_THAT(table, AllOf(HasSubstr("quickstart"), Not(HasSubstr("0a1b2c")),
                           HasSubstr("20260131-120000-3d4e5f"), Not(HasSubstr("3d4e5f  quick"))));
  EXPECT_EQ(RunCli({"pools", "-o", "json"}).envelope()["data"][0]["job"], "quickstart");
}

TEST_F(CommandsTest, NamesAreForCompletion) {
  ServeJobsAndPools();
  EXPECT_EQ(RunCli({"list", "--names"}).out, "quickstart\n");
  const CliResult bash = run_({"completion", "bash"});
  EXPECT_THAT(bash.out, HasSubstr("get) _longhaul_jobs"));
  for (const char* shell : {"bash", "zsh"}) {
    EXPECT_THAT(run_({"completion", shell}).out,
                AllOf(HasSubstr("--tls-key|--token-file) connection"),
                      HasSubstr("--tls-key|--token-file|--data-dir)")));
  }
}

TEST_F(CommandsTest, CompletionKnowsCommandsOfGroupsOneByOne) {
  for (const char* shell : {"bash", "zsh"}) {
    const std::string script = run_({"completion", shell}).out;
    const auto words = [&](const std::string& pattern) {
      const size_t at = script.find("\n    " + pattern + ") ");
      EXPECT_NE(at, std::string::npos) << pattern;
      return at == std::string::npos ? "" : script.substr(at + 1, script.find('\n', at + 1) - at);
    };
    EXPECT_THAT(
        words("\"graph import edges\""),
        AllOf(HasSubstr("--valid-share"), HasSubstr("--server"), Not(HasSubstr("--quick"))));
    EXPECT_THAT(words("\"graph import\""), HasSubstr(" edges ogb graphbolt'"));
    EXPECT_THAT(words("graph"),
                AllOf(HasSubstr(" import predict info'"), Not(HasSubstr("--quick"))));
    EXPECT_THAT(words("\"graph predict\""), HasSubstr("_longhaul_jobs"));
    EXPECT_THAT(words("\"simulate cores\""),
                AllOf(HasSubstr("--calibrate"), Not(HasSubstr("--pools"))));
    EXPECT_THAT(script, AllOf(HasSubstr("|--sites|"), HasSubstr("|--calibrate|")));
  }
}

TEST_F(CommandsTest, FishSeesDescriptions) {
  const std::string fish = run_({"completion", "fish"}).out;
  EXPECT_THAT(
      fish,
      AllOf(HasSubstr("-n '__longhaul_is none' -a submit -d 'Submit a job'"),
            HasSubstr("complete -c longhaul -n '__longhaul_is submit' -l file -s f -r -F -d "),
            HasSubstr("-n '__longhaul_is get' -a '(__longhaul_jobs)'"),
            HasSubstr("-n '__longhaul_is eval' -a '(__longhaul_jobs)'"),
            HasSubstr("-n '__longhaul_is spec' -a explain -d "),
            HasSubstr("-n '__longhaul_is \"graph import\"' -a edges -d "),
            HasSubstr("-n '__longhaul_is \"graph import edges\"' -l edges -r -F -d "),
            HasSubstr("-l dry-run -d 'Check the spec"), HasSubstr("coordinator\\'s")));
}

TEST_F(CommandsTest, TextThatIsNoNameIsNotForCompletion) {
  fake_.list = [](const v1::ListJobsRequest&, v1::ListJobsResponse* response) {
    response->add_jobs()->mutable_spec()->set_name("$(id)");
    response->add_jobs()->mutable_spec()->set_name("a b");
    *response->add_jobs() = SampleJob();
    return grpc::Status::OK;
  };
  fake_.Start();
  EXPECT_EQ(RunCli({"list", "--names"}).out, "quickstart\n");
}

TEST_F(CommandsTest, AJobsErrorIsShownWithFieldHintAndPool) {
  fake_.get = [](const v1::GetJobRequest&, v1::GetJobResponse* response) {
    *response->mutable_job() = SampleJob(v1::FAILED);
    v1::JobError* error = response->mutable_job()->mutable_error();
    error->set_code("NOT_FOUND");
    error->set_message("no such file");
    error->set_field("data.text.path");
    error->set_hint("mount the data");
    error->set_pool("west");
    v1::SetAside* aside = response->mutable_job()->add_set_aside();
    aside->set_pool("east");
    *aside->mutable_error() = *error;
    return grpc::Status::OK;
  };
  fake_.Start();
  const std::string out = RunCli({"get", "quickstart"}).out;
  EXPECT_THAT(out, AllOf(HasSubstr("NOT_FOUND: no such file\n"), HasSubstr("data.text.path\n"),
                         HasSubstr("west\n"), HasSubstr("mount the data\n")));
  EXPECT_THAT(out, AllOf(HasSubstr("NOT_FOUND: data.text.path: no such file"),
                         HasSubstr("  hint: mount the data\n")));
}

TEST_F(CommandsTest, ColoursAreForTerminalsThatWantThem) {
  EXPECT_THAT(run_({"sumbit"}).err, StartsWith("error:"));
  run_.terminal = true;
  EXPECT_THAT(run_({"sumbit"}).err, StartsWith("\x1b[31merror:\x1b[0m"));
  run_.variables["NO_COLOR"] = "1";
  EXPECT_THAT(run_({"sumbit"}).err, StartsWith("error:"));
}

TEST_F(CommandsTest, TextThatCannotBeSentIsAWrongArgument) {
  fake_.Start();
  for (const std::vector<std::string>& args :
       {std::vector<std::string>{"get", "\xff"},
        {"cancel", "a", "--reason", "\xff"},
        {"submit", "-f", "deploy/examples/quickstart.yaml", "--token", "\xff"}}) {
    const CliResult result = RunCli(args);
    EXPECT_EQ(result.exit, 4);
    EXPECT_THAT(result.err, HasSubstr("not UTF-8"));
  }
}

TEST_F(CommandsTest, OnlyACommandThatCallsKeepsTheLibraryOfCalls) {
  fake_.Start();
  int kept = 0;
  run_.before_client = [&kept] {
    ++kept;
    return absl::OkStatus();
  };
  EXPECT_EQ(run_({"--version"}).exit, 0);
  EXPECT_EQ(run_({"get", "--help"}).exit, 0);
  EXPECT_EQ(run_({"contexts"}).exit, 0);
  EXPECT_EQ(kept, 0);
  RunCli({"list"});
  EXPECT_EQ(kept, 1);
  RunCli({"doctor"});
  EXPECT_EQ(kept, 2);
}

TEST_F(CommandsTest, ContextsNameCoordinators) {
  ServeJobsAndPools();
  const TempDir home;
  std::filesystem::create_directories(home.path() + "/longhaul");
  const auto write = [&](const std::string& text) {
    std::ofstream(home.path() + "/longhaul/config.yaml") << text;
  };
  run_.variables["XDG_CONFIG_HOME"] = home.path();
  write(absl::StrCat("context: lab\ncontexts:\n  lab: {server: '", fake_.address(),
                     "'}\n  far: {server: 'localhost:1', tls: {ca: ca.pem}}\n"));
  EXPECT_EQ(run_({"list", "--names"}).out, "quickstart\n");
  EXPECT_EQ(run_({"contexts", "--names"}).out, "lab\nfar\n");
  EXPECT_THAT(run_({"contexts"}).out, HasSubstr("*        lab "));
  EXPECT_THAT(run_({"list", "--context", "far"}).err, HasSubstr("longhaul/ca.pem: No such file"));
  EXPECT_THAT(run_({"list", "--context", "fra"}).err,
              AllOf(HasSubstr("no context \"fra\""), HasSubstr("did you mean 'far'?")));
  // What is named on the command line does not mix with the environment.
  run_.variables["LONGHAUL_SERVER"] = "localhost:1";
  EXPECT_EQ(run_({"list", "--context", "lab"}).exit, 0);
  EXPECT_EQ(run_({"list"}).exit, 2);
  run_.variables.erase("LONGHAUL_SERVER");
  run_.variables["LONGHAUL_CONTEXT"] = "far";
  EXPECT_EQ(run_({"list"}).exit, 4);
  EXPECT_EQ(RunCli({"list"}).exit, 4);  // The flag names the server; TLS files are the context's.
  write(absl::StrCat("server: '", fake_.address(), "'\ntoken_file: token\n"));
  run_.variables.erase("LONGHAUL_CONTEXT");
  EXPECT_THAT(run_({"list"}).err, HasSubstr("a token is never sent in plaintext"));
  write("contexts: {lab: {sevrer: x}}\n");
  EXPECT_THAT(run_({"list"}).err, AllOf(HasSubstr("contexts.lab.sevrer"), HasSubstr("'server'"),
                                        HasSubstr("contexts.lab.server: is required")));
}

TEST(ProcessTextTest, WrapsAndClips) {
  EXPECT_EQ(ClipColumns("abcdefgh", 7), "abcd...");
  EXPECT_EQ(ClipColumns("abcdefgh", 4), "abcd");
  EXPECT_EQ(ClipColumns("\xC3\xA4\xC3\xB6\xC3\xBC", 2), "\xC3\xA4\xC3\xB6");
  EXPECT_EQ(WrapText("a bb ccc\nd", 6, "  "), "  a bb\n  ccc\n  d\n");
}

TEST_F(CommandsTest, AFaultOfAFolderHereIsNoneOfTheConnection) {
  const std::string file = ::testing::TempDir() + "/no_checkpoint";
  std::filesystem::create_directories(file);
  std::ofstream(file + "/thesis") << "mine";
  const CliResult result =
      run_({"download", "base", "--out", file, "--server", NobodyListensAt(), "-o", "json"});
  EXPECT_EQ(result.exit, 4) << result.err;
  EXPECT_EQ(result.envelope()["error"]["code"], "ALREADY_EXISTS");
  EXPECT_EQ(result.envelope()["error"]["hint"], "remove it, or give another --out");
  absl::Status local = absl::PermissionDeniedError("not yours");
  EXPECT_EQ(ErrorOfDownload(local, "hub:7070").exit, ExitCode::kConnection);
  local.SetPayload("longhaul.cli/local", absl::Cord());
  EXPECT_EQ(ErrorOfDownload(local, "hub:7070").exit, ExitCode::kUsage);
}

}  // namespace
}  // namespace longhaul::cli
