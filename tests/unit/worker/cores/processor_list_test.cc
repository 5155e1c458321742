#include "worker/cores/processor_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <thread>

namespace longhaul {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(ProcessorListTest, IsReadAndWritten) {
  EXPECT_THAT(*ParseProcessorList(" 0-3,8,10-11\n"), ElementsAre(0, 1, 2, 3, 8, 10, 11));
  EXPECT_THAT(*ParseProcessorList("5,1-2,2"), ElementsAre(1, 2, 5));
  EXPECT_THAT(*ParseProcessorList("\n"), IsEmpty());
  EXPECT_EQ(ProcessorList({0, 1, 2, 3, 8, 10, 11}), "0-3,8,10-11");
  EXPECT_EQ(ProcessorList({}), "");
}

TEST(ProcessorListTest, OtherFormsAreRefused) {
  for (const char* list : {"a", "1-", "-1", "3-1", "0,,1", "1-2-3", "0-99999999", "8192", "0x1"}) {
    EXPECT_EQ(ParseProcessorList(list).status().code(), absl::StatusCode::kInvalidArgument) << list;
  }
}

TEST(ProcessorListTest, BindsTheThread) {
  std::thread([] {
    EXPECT_TRUE(BindToProcessors("").ok());
    cpu_set_t before, after;
    ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
    int processor = 0;
    while (!CPU_ISSET(processor, &before)) ++processor;
    ASSERT_TRUE(BindToProcessors(ProcessorList({processor})).ok());
    ASSERT_EQ(sched_getaffinity(0, sizeof(after), &after), 0);
    EXPECT_EQ(CPU_COUNT(&after), 1);
    EXPECT_TRUE(CPU_ISSET(processor, &after));
    EXPECT_FALSE(BindToProcessors("8191").ok());  // No machine has it.
    EXPECT_FALSE(BindToProcessors("all").ok());
  }).join();
}

}  // namespace
}  // namespace longhaul
