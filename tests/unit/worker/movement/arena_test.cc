#include "worker/movement/arena.h"

#include <gtest/gtest.h>

#include "worker/movement/emulated_movement.h"

namespace longhaul {
namespace {

TEST(ArenaTest, CutsAlignedBuffersThatKeepTheMemory) {
  EmulatedMovement movement({});
  std::unique_ptr<VersionedBuffer> first, second;
  {
    auto arena =
        Arena::Create(movement, MemorySide::kHost, Arena::SizeOf(10) + Arena::SizeOf(300), "a");
    ASSERT_TRUE(arena.ok());
    first = arena->Take("first", 10);
    second = arena->Take("second", 300);
  }
  EXPECT_EQ(first->bytes(), 10);
  EXPECT_EQ(second->memory().data() - first->memory().data(), 256);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(second->as<char>()) % 256, 0u);
  for (const std::byte value : second->memory()) EXPECT_EQ(value, std::byte{0});
}

TEST(ArenaTest, SaysWhatThereIsNoMemoryFor) {
  EmulatedMovement movement({.device_bytes_max = 100});
  EXPECT_EQ(Arena::Create(movement, MemorySide::kDevice, 256, "slots").status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(Arena::Create(movement, MemorySide::kDevice, 0, "nothing").ok());
}

}  // namespace
}  // namespace longhaul
