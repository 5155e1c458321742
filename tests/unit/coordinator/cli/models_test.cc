// What the CLI does with files of models. tests/models runs it on those that transformers wrote.
#include <filesystem>
#include <fstream>

#include "cli_runner.h"
#include "common/config/job_spec.h"
#include "fake_coordinator.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/temp_dir.h"

namespace longhaul::cli {
namespace {

using ::testing::HasSubstr;

constexpr char kConfig[] = R"({"architectures": ["LlamaForCausalLM"], "hidden_size": 48,
  "intermediate_size": 80, "num_hidden_layers": 2, "num_attention_heads": 6, "vocab_size": 300,
  "max_position_embeddings": 4096})";

class ModelsTest : public ::testing::Test {
 protected:
  CliResult Submit(const std::vector<std::string>& sets) {
    std::vector<std::string> args = {"submit", "-f", "deploy/examples/continue.yaml", "--server",
                                     fake_.address()};
    for (const std::string& set : sets) args.insert(args.end(), {"--set", set});
    return run_(args);
  }

  const TempDir folder_;
  FakeCoordinator fake_;
  CliRunner run_;
};

TEST_F(ModelsTest, SubmitTakesShapeAndTokenizerFromTheFolder) {
  std::ofstream(folder_.path() + "/config.json") << kConfig;
  v1::TransformerSpec sent;
  v1::DataSpec data;
  fake_.submit = [&](const v1::SubmitJobRequest& request, v1::SubmitJobResponse* response) {
    sent = request.spec().model().transformer();
    data = request.spec().data();
    *response->mutable_job()->mutable_spec() = request.spec();
    return grpc::Status::OK;
  };
  fake_.Start();
  const CliResult without = Submit({"model.hf.path=" + folder_.path()});
  EXPECT_EQ(without.exit, 4);
  EXPECT_THAT(without.err, HasSubstr("data.jsonl.tokenizer"));
  EXPECT_THAT(without.err, HasSubstr("a folder with neither tokenizer.json nor tokenizer.model"));
  EXPECT_EQ(Submit({"model.hf.path=" + folder_.path(), "data.jsonl.tokenizer=bytes"}).exit, 0);
  EXPECT_EQ(data.model_tokenizer(), "");
  std::ofstream(folder_.path() + "/tokenizer.json") << "{}";
  const CliResult result = Submit({"model.hf.path=" + folder_.path()});
  EXPECT_EQ(result.exit, 0) << result.err;
  EXPECT_EQ(data.jsonl().tokenizer(), "model");
  EXPECT_EQ(data.model_tokenizer().size(), 64u);
  const CliResult other =
      Submit({"model.hf.path=" + folder_.path(), "data.model_tokenizer=" + std::string(64, '0')});
  EXPECT_EQ(other.exit, 4);
  EXPECT_THAT(other.err, HasSubstr("data.model_tokenizer"));
  EXPECT_EQ(sent.dim(), 48);
  EXPECT_EQ(sent.head_dim(), 8);
  EXPECT_EQ(sent.context(), 256);  // The spec's own.
  EXPECT_EQ(sent.positions(), 4096);
}

TEST_F(ModelsTest, SubmitOfChatTakesTheChatTemplateOfTheFolder) {
  std::ofstream(folder_.path() + "/config.json") << kConfig;
  std::ofstream(folder_.path() + "/tokenizer.json") << "{}";
  v1::DataSpec data;
  fake_.submit = [&](const v1::SubmitJobRequest& request, v1::SubmitJobResponse* response) {
    data = request.spec().data();
    *response->mutable_job()->mutable_spec() = request.spec();
    return grpc::Status::OK;
  };
  fake_.Start();
  const std::string folder = "model.hf.path=" + folder_.path();
  const std::string chat = "data={chat: {path: x}}";
  const CliResult without = Submit({folder, chat});
  EXPECT_EQ(without.exit, 4);
  EXPECT_THAT(without.err,
              testing::AllOf(HasSubstr("data.chat: "), HasSubstr("has no chat template"),
                             HasSubstr("data.chat.chat_template")));
  EXPECT_EQ(Submit({folder, chat, "data.chat.chat_template=own.jinja"}).exit, 0);
  EXPECT_EQ(data.model_chat_template(), "");
  std::ofstream(folder_.path() + "/chat_template.jinja") << "{{ messages }}";
  const CliResult result = Submit({folder, chat});
  EXPECT_EQ(result.exit, 0) << result.err;
  EXPECT_EQ(data.chat().tokenizer(), "model");
  EXPECT_EQ(data.model_chat_template().size(), 64u);
  const CliResult other =
      Submit({folder, chat, "data.model_chat_template=" + std::string(64, '0')});
  EXPECT_EQ(other.exit, 4);
  EXPECT_THAT(other.err, HasSubstr("data.model_chat_template"));
}

TEST_F(ModelsTest, APoolTrainsAloneAsTheSpecSaysButForTheExchange) {
  v1::JobSpec sent;
  fake_.submit = [&](const v1::SubmitJobRequest& request, v1::SubmitJobResponse* response) {
    sent = request.spec();
    *response->mutable_job()->mutable_spec() = request.spec();
    return grpc::Status::OK;
  };
  fake_.Start();
  std::vector<std::string> words = {"submit",
                                    "-f",
                                    "deploy/examples/two_regions.yaml",
                                    "--server",
                                    fake_.address(),
                                    "--alone",
                                    "europe",
                                    "--set",
                                    "data.pools=[{pool: europe, megatron: {prefix: a}}, {pool: "
                                    "america, megatron: {prefix: b}}]"};
  ASSERT_EQ(run_(words).exit, 0);
  EXPECT_EQ(sent.name(), "two-regions-alone");
  EXPECT_EQ(sent.train().steps(), 20000);
  EXPECT_EQ(sent.pools().ShortDebugString(), "min: 1 max: 1 names: \"europe\"");
  ASSERT_EQ(sent.data().pools_size(), 1);
  EXPECT_EQ(sent.data().pools(0).megatron().prefix(), "a");
  EXPECT_EQ(sent.sync().alpha(), 1);
  EXPECT_EQ(sent.sync().h(), 100);
  EXPECT_EQ(sent.sync().outer().momentum(), 0);
  EXPECT_TRUE(sent.sync().outer().has_momentum());
  EXPECT_EQ(sent.sync().up().ShortDebugString(), "codec: FP32");
  EXPECT_TRUE(ResolveJobSpec(sent).ok());
  words.insert(words.end(), {"--set", "name=mine"});
  ASSERT_EQ(run_(words).exit, 0);
  EXPECT_EQ(sent.name(), "mine");
}

TEST_F(ModelsTest, SubmitRefusesAShapeThatIsNotTheFolders) {
  std::ofstream(folder_.path() + "/config.json") << kConfig;
  fake_.Start();
  const CliResult result =
      Submit({"model.hf.path=" + folder_.path(), "model.transformer.layers=3"});
  EXPECT_EQ(result.exit, 4);
  EXPECT_THAT(result.err, HasSubstr("model.transformer.layers"));
  EXPECT_THAT(result.err, HasSubstr("found 3, num_hidden_layers in config.json is 2"));
  EXPECT_THAT(Submit({"model.hf.path=/nowhere"}).err,
              HasSubstr("write model.transformer in the spec"));
}

TEST_F(ModelsTest, ExportRefusesWhatIsNoCheckpoint) {
  const CliResult result = run_({"export", folder_.path(), "--out", folder_.path() + "/out"});
  EXPECT_EQ(result.exit, 4);
  EXPECT_THAT(result.err, HasSubstr("manifest.json"));
  EXPECT_EQ(run_({"export", folder_.path(), "--out", "x", "--dtype", "fp8"}).exit, 4);
  EXPECT_EQ(run_({"export", folder_.path()}).exit, 4);
}

TEST_F(ModelsTest, CommandsOfLonghaulLmComeFirst) {
  const CliResult result = run_({"--context", "home", "eval", "x"});
  EXPECT_EQ(result.exit, 4);
  EXPECT_THAT(result.err, HasSubstr("eval comes first"));
  EXPECT_THAT(result.err, HasSubstr("LONGHAUL_CONTEXT"));
  EXPECT_THAT(run_({"--help"}).out, HasSubstr("sample"));
}

TEST_F(ModelsTest, OptionsOfTheConnectionMayComeBeforeThem) {
  fake_.Start();
  using Words = std::vector<std::string>;
  for (const Words& before :
       {Words{"--server", fake_.address(), "-o", "json"}, Words{"--server=" + fake_.address()},
        Words{"-ojson", "--timeout", "5s", "--server", fake_.address()}}) {
    for (const Words& command : {Words{"eval"}, Words{"sample"}, Words{"graph", "predict"}}) {
      Words words = before;
      words.insert(words.end(), command.begin(), command.end());
      words.push_back("no-such-job");
      EXPECT_THAT(run_(words).err, HasSubstr("no local folder is named no-such-job; as a job: "));
    }
  }
}

// A graph lies in the folder `packages`, and the job that trained on it is named `packages`.
TEST_F(ModelsTest, AFolderWithTheNameOfAJobIsTheJobUnlessItHoldsAModel) {
  const std::string before = std::filesystem::current_path();
  std::filesystem::current_path(folder_.path());
  std::filesystem::create_directory("packages");
  fake_.Start();
  const auto said = [&](std::vector<std::string> words) {
    words.insert(words.end(), {"--server", fake_.address()});
    return run_(words).err;
  };
  for (const char* manifest : {"", "{\"format\": \"longhaul-graph\", \"version\": 1}"}) {
    if (*manifest != 0) std::ofstream("packages/manifest.json") << manifest;
    for (const char* command : {"eval", "sample"}) {
      EXPECT_THAT(said({command, "packages"}),
                  HasSubstr("the local folder packages holds no model; as a job: "));
    }
    EXPECT_THAT(said({"export", "packages", "--out", "exported"}),
                HasSubstr("not set in this test"));
    // A path is never a job.
    EXPECT_THAT(said({"export", "./packages", "--out", "exported"}),
                HasSubstr("packages/manifest.json"));
  }
  // One that is damaged is explained, not passed over.
  std::ofstream("packages/manifest.json") << "{";
  EXPECT_THAT(said({"export", "packages", "--out", "exported"}),
              HasSubstr("packages/manifest.json is not a checkpoint's manifest"));
  std::filesystem::current_path(before);
}

}  // namespace
}  // namespace longhaul::cli
