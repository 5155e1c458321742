// Every file in deploy/examples is a job that is accepted without a warning.
#include <filesystem>
#include <fstream>
#include <sstream>

#include "common/config/data_sources.h"
#include "common/config/job_spec.h"
#include "common/config/load.h"
#include "gtest/gtest.h"

namespace longhaul {
namespace {

TEST(ExamplesTest, EveryExampleResolvesWithoutWarnings) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator("deploy/examples")) {
    if (entry.path().extension() != ".yaml") continue;
    ++files;
    std::ifstream file(entry.path());
    std::stringstream text;
    text << file.rdbuf();
    auto spec = ParseJobSpec(text.str());
    ASSERT_TRUE(spec.ok()) << entry.path() << ": " << spec.status();
    // Shape and tokenizer normally come from the model's folder, which does not exist here.
    if (spec->model().has_hf()) {
      spec->mutable_model()->mutable_transformer()->set_size("35m");
      FillTokenizers(*spec);
      spec->mutable_data()->set_model_tokenizer(std::string(64, 'a'));
    }
    const auto job = ResolveJobSpec(*spec);
    ASSERT_TRUE(job.ok()) << entry.path() << ": " << job.status();
    EXPECT_TRUE(job->warnings.empty()) << entry.path() << ": " << job->warnings.front();
  }
  EXPECT_GE(files, 2);
}

}  // namespace
}  // namespace longhaul
