#include "coordinator/job/job_table.h"

#include <gtest/gtest.h>

namespace longhaul {
namespace {

TEST(JobTableTest, KeepsTheOrderOfSubmission) {
  JobTable table;
  for (const char* id : {"z", "a", "m"}) ASSERT_NE(table.Add({.id = id}), nullptr);
  std::string order;
  for (const Job& job : table.jobs()) order += job.id;
  EXPECT_EQ(order, "zam");
}

TEST(JobTableTest, RefusesAnIdThatIsTaken) {
  JobTable table;
  Job* first = table.Add({.id = "a", .options = {.steps = 1}});
  EXPECT_EQ(table.Add({.id = "a", .options = {.steps = 2}}), nullptr);
  EXPECT_EQ(table.Find("a"), first);
  EXPECT_EQ(first->options.steps, 1);
  EXPECT_EQ(table.Find("b"), nullptr);
}

TEST(JobTableTest, JobsStayWhereTheyAre) {
  JobTable table;
  const Job* first = table.Add({.id = "0"});
  for (int i = 1; i < 1000; ++i) table.Add({.id = std::to_string(i)});
  EXPECT_EQ(table.Find("0"), first);
}

}  // namespace
}  // namespace longhaul
