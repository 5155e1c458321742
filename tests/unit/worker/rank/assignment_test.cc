#include "worker/rank/assignment.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace longhaul {
namespace {

std::string Json(int ordinal, absl::string_view train) {
  return absl::StrCat(R"({"job_id": "j", "ordinal": )", ordinal, R"(, "spec": {"name": "a", )",
                      R"("model": {"synthetic": {"units": 2, "elements": 300}}, "train": )", train,
                      "}}");
}

TEST(AssignmentTest, GivesTheSpecWithItsDefaults) {
  const auto assignment = ParseAssignment(Json(1, R"({"steps": 15})"));
  ASSERT_TRUE(assignment.ok()) << assignment.status();
  EXPECT_EQ(assignment->job_id(), "j");
  EXPECT_EQ(assignment->ordinal(), 1);
  EXPECT_EQ(assignment->spec().train().steps(), 15);
  EXPECT_GT(assignment->spec().sync().h(), 0);
}

TEST(AssignmentTest, RefusesWhatCannotBe) {
  const auto code = [](const std::string& json) { return ParseAssignment(json).status().code(); };
  EXPECT_EQ(code(""), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code("{}"), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(Json(-1, R"({"steps": 15})")), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(Json(0, R"({"steps": -15})")), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace longhaul
