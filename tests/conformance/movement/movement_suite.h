// What every Movement promises. An implementation instantiates MovementSuite with its maker.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <vector>

#include "absl/time/clock.h"
#include "worker/movement/arena.h"
#include "worker/movement/movement.h"

namespace longhaul {

using MovementMaker = std::function<absl::StatusOr<std::shared_ptr<Movement>>()>;

class MovementSuite : public testing::TestWithParam<MovementMaker> {
 protected:
  void SetUp() override {
    auto made = GetParam()();
    if (absl::IsFailedPrecondition(made.status())) GTEST_SKIP() << made.status().message();
    ASSERT_TRUE(made.ok()) << made.status();
    movement_ = *std::move(made);
  }
  std::unique_ptr<VersionedBuffer> Make(MemorySide side, int64_t bytes) {
    auto arena = Arena::Create(*movement_, side, Arena::SizeOf(bytes), "a test");
    EXPECT_TRUE(arena.ok()) << arena.status();
    return arena->Take(side == MemorySide::kHost ? "host" : "device", bytes);
  }
  static void Fill(VersionedBuffer& buffer, int64_t version) {
    for (int64_t i = 0; i < buffer.bytes(); ++i)
      buffer.memory()[i] = static_cast<std::byte>(7 * version + i);
    buffer.SetVersion(version);
  }
  static void ExpectFilled(const VersionedBuffer& buffer, int64_t version) {
    EXPECT_TRUE(Movement::Expect({const_cast<VersionedBuffer*>(&buffer), version}).ok());
    for (int64_t i = 0; i < buffer.bytes(); ++i)
      ASSERT_EQ(buffer.memory()[i], static_cast<std::byte>(7 * version + i)) << i;
  }

  static constexpr MoveQueue kStateUp{Direction::kUp, MoveClass::kState};
  static constexpr MoveQueue kStateDown{Direction::kDown, MoveClass::kState};
  static constexpr MoveQueue kWeightsDown{Direction::kDown, MoveClass::kWeights};
  std::shared_ptr<Movement> movement_;
};

TEST_P(MovementSuite, BytesAreCopiedToTheDeviceAndBack) {
  for (const int64_t bytes : {0, 1, 255, 256, 257, 1 << 20}) {
    const auto from = Make(MemorySide::kHost, bytes), to = Make(MemorySide::kHost, bytes),
               device = Make(MemorySide::kDevice, bytes);
    Fill(*from, 3);
    const MoveToken up = movement_->Copy(kStateUp, {from.get(), 3}, {device.get(), 3}, bytes);
    const MoveToken down =
        movement_->Copy(kStateDown, {device.get(), 3}, {to.get(), 3}, bytes, {up});
    ASSERT_TRUE(movement_->Wait(down, "the test").ok());
    EXPECT_TRUE(movement_->Done(up) && movement_->Done(down));
    ExpectFilled(*to, 3);
  }
}

// Many buffers use one slot on the device. Only tokens keep them apart.
TEST_P(MovementSuite, TokensOrderQueues) {
  constexpr int kBuffers = 50;
  const auto slot = Make(MemorySide::kDevice, 4096);
  std::vector<std::unique_ptr<VersionedBuffer>> from, to;
  MoveToken free;
  for (int i = 0; i < kBuffers; ++i) {
    from.push_back(Make(MemorySide::kHost, 4096));
    to.push_back(Make(MemorySide::kHost, 4096));
    Fill(*from.back(), i);
    const MoveToken up =
        movement_->Copy(kStateUp, {from.back().get(), i}, {slot.get(), i}, 4096, {free});
    const MoveToken work = movement_->Compute([](void*) { return absl::OkStatus(); },
                                              {{slot.get(), i}}, {{slot.get(), i + 1000}}, {up});
    const MoveQueue down = i % 2 == 0 ? kStateDown : kWeightsDown;
    free = movement_->Copy(down, {slot.get(), i + 1000}, {to.back().get(), i}, 4096, {work});
  }
  ASSERT_TRUE(movement_->WaitAll("the test").ok());
  for (int i = 0; i < kBuffers; ++i) ExpectFilled(*to[i], i);
}

TEST_P(MovementSuite, AQueueKeepsItsOrder) {
  const auto first = Make(MemorySide::kHost, 64), second = Make(MemorySide::kHost, 64),
             back = Make(MemorySide::kHost, 64), device = Make(MemorySide::kDevice, 64);
  Fill(*first, 1);
  Fill(*second, 2);
  movement_->Copy(kStateUp, {first.get(), 1}, {device.get(), 1}, 64);
  const MoveToken last = movement_->Copy(kStateUp, {second.get(), 2}, {device.get(), 2}, 64);
  const MoveToken down =
      movement_->Copy(kStateDown, {device.get(), 2}, {back.get(), 2}, 64, {last});
  ASSERT_TRUE(movement_->Wait(down, "the test").ok());
  ExpectFilled(*back, 2);
}

TEST_P(MovementSuite, AWrongVersionIsAPermanentError) {
  const auto host = Make(MemorySide::kHost, 64), device = Make(MemorySide::kDevice, 64);
  Fill(*host, 1);
  const MoveToken token = movement_->Copy(kStateUp, {host.get(), 2}, {device.get(), 2}, 64);
  const absl::Status status = movement_->Wait(token, "the test");
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("read at version 2 and has 1"));
  EXPECT_EQ(movement_->Join({}), status);
  EXPECT_FALSE(Movement::Expect({host.get(), 2}).ok());
}

TEST_P(MovementSuite, RefusesImpossibleCopies) {
  const auto host = Make(MemorySide::kHost, 64), device = Make(MemorySide::kDevice, 32);
  movement_->Copy(kStateUp, {host.get(), 0}, {device.get(), 0}, 64);
  EXPECT_THAT(std::string(movement_->WaitAll("the test").message()),
              testing::HasSubstr("64 bytes, of 64 and 32"));
}

TEST_P(MovementSuite, RefusesAQueueOfTheOtherDirection) {
  const auto host = Make(MemorySide::kHost, 64), device = Make(MemorySide::kDevice, 64);
  movement_->Copy(kStateDown, {host.get(), 0}, {device.get(), 0}, 64);
  EXPECT_EQ(movement_->WaitAll("the test").code(), absl::StatusCode::kInternal);
}

TEST_P(MovementSuite, AFailedWorkIsAPermanentError) {
  movement_->Compute([](void*) { return absl::DataLossError("a broken kernel"); }, {}, {});
  EXPECT_EQ(movement_->WaitAll("the test"), absl::DataLossError("a broken kernel"));
}

// Who frees memory after WaitAll relies on it.
TEST_P(MovementSuite, WhatWaitsForAllWaitsAfterAnErrorToo) {
  const auto host = Make(MemorySide::kHost, 64), device = Make(MemorySide::kDevice, 64);
  const MoveToken work = movement_->Compute(
      [](void*) {
        absl::SleepFor(absl::Milliseconds(20));
        return absl::OkStatus();
      },
      {}, {{device.get(), 1}});
  const MoveToken down =
      movement_->Copy(kWeightsDown, {device.get(), 1}, {host.get(), 1}, 64, {work});
  movement_->Copy(kStateUp, {host.get(), 7}, {device.get(), 7}, 64);
  EXPECT_EQ(movement_->WaitAll("the test").code(), absl::StatusCode::kInternal);
  EXPECT_TRUE(movement_->Done(work));
  EXPECT_TRUE(movement_->Done(down));
}

TEST_P(MovementSuite, NamesMemoryThatIsMissing) {
  for (const MemorySide side : {MemorySide::kHost, MemorySide::kDevice}) {
    const auto refused = movement_->Allocate(side, int64_t{1} << 46, "the moments");
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(refused.status().message()), testing::HasSubstr("the moments"));
    EXPECT_THAT(std::string(refused.status().message()), testing::HasSubstr("70368744177664"));
  }
}

// The caller's work comes after what it has joined, and before what waits for its token.
TEST_P(MovementSuite, TheCallersOwnWorkHasATokenToo) {
  const auto host = Make(MemorySide::kHost, 64), back = Make(MemorySide::kHost, 64),
             device = Make(MemorySide::kDevice, 64);
  Fill(*host, 1);
  const MoveToken up = movement_->Copy(kStateUp, {host.get(), 1}, {device.get(), 1}, 64);
  ASSERT_TRUE(movement_->Join(up).ok());
  const auto token = movement_->Fork();
  ASSERT_TRUE(token.ok()) << token.status();
  const MoveToken down =
      movement_->Copy(kWeightsDown, {device.get(), 1}, {back.get(), 1}, 64, {*token});
  ASSERT_TRUE(movement_->Wait(*token, "the test").ok());
  EXPECT_TRUE(movement_->Done(*token));
  EXPECT_TRUE(movement_->Done(up));
  ASSERT_TRUE(movement_->Wait(down, "the test").ok());
  ExpectFilled(*back, 1);
}

}  // namespace longhaul
