#include "common/blocks/aligned_buffer.h"

#include <cstring>

#include "gtest/gtest.h"

namespace longhaul {
namespace {

TEST(AlignedBufferTest, IsAlignedAndWritableAtEverySize) {
  for (const size_t bytes : {1, 63, 64, 65, 1000, 1 << 20, (4 << 20) - 1, 4 << 20, (5 << 20) + 7}) {
    AlignedBuffer buffer(bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 64, 0);
    ASSERT_EQ(buffer.size(), bytes);
    std::memset(buffer.data(), 7, bytes);
    EXPECT_EQ(buffer.span().back(), 7);
  }
  EXPECT_EQ(AlignedBuffer(0).size(), 0);
}

TEST(AlignedBufferTest, AMovedFromBufferIsEmpty) {
  AlignedBuffer buffer(1000);
  const uint8_t* data = buffer.data();
  AlignedBuffer moved = std::move(buffer);
  EXPECT_EQ(moved.data(), data);
  EXPECT_EQ(moved.size(), 1000);
  EXPECT_EQ(buffer.size(), 0);  // NOLINT: the state after a move is part of the contract.
  buffer = std::move(moved);
  EXPECT_EQ(buffer.data(), data);
}

}  // namespace
}  // namespace longhaul
