// The product's queue of collectives on a device whose streams run as late as events allow: what it
// does with torch's streams and events is what keeps computation and collectives apart.
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "common/base/clock.h"
#include "common/base/status_marks.h"
#include "tests/testing/stream_communicator.h"
#include "tests/unit/worker/engine/late_device.h"
#include "tests/unit/worker/engine/run_ranks.h"
#include "worker/engine/collective_queue.h"

namespace longhaul {
namespace {

constexpr int64_t kFloats = 50;
constexpr int kTurns = 6;

enum class Planted { kNothing, kNoFences, kNoWait };

// What ranks have after some turns in which they sum what each computed from its sum before.
std::vector<std::vector<float>> SumsOf(int ranks, uint64_t seed, Planted planted) {
  EmulatedStreams& streams = LateStreams();
  streams.Reseed(seed);
  std::vector<std::vector<float>> states(ranks);
  const std::shared_ptr<DeviceStreams> shared(&streams, [](DeviceStreams*) {});
  RunRanks(MakeStreamCommunicators(ranks, shared).value(), [&](int rank, Communicator& group) {
    TakeLateStream();
    void* const compute = CurrentLateStream();
    std::vector<float> values(kFloats, static_cast<float>(rank)), sum(kFloats);
    {
      // On a CPU the queue takes no events: its thread has a stream that nothing orders.
      const auto queue =
          MakeCollectiveQueue(planted == Planted::kNoFences ? c10::Device(c10::kCPU) : kLateDevice);
      for (int turn = 0; turn < kTurns; ++turn) {
        streams.Submit(compute, [&, turn] {
          for (int64_t i = 0; i < kFloats; ++i)
            sum[i] = values[i] / 3 + static_cast<float>((i + turn) % 7);
        });
        const auto ticket = queue->Submit("summing", [&] {
          return group.AllReduceSum(absl::MakeSpan(sum),
                                    {.timeout = absl::Seconds(60), .stream = CurrentLateStream()});
        });
        if (planted != Planted::kNoWait) {
          EXPECT_TRUE(queue->Wait(ticket).ok());
        }
        streams.Submit(compute, [&] {
          for (int64_t i = 0; i < kFloats; ++i) values[i] += sum[i];
        });
      }
      // All that uses the buffers.
      EXPECT_TRUE(queue
                      ->Wait(queue->Submit("ending",
                                           [&] {
                                             return streams.Wait(
                                                 *streams.Record(CurrentLateStream()),
                                                 SteadyTime() + absl::Seconds(60));
                                           }))
                      .ok());
    }
    EXPECT_TRUE(streams.Wait(*streams.Record(compute), SteadyTime() + absl::Seconds(60)).ok());
    states[rank] = values;
  });
  return states;
}

TEST(StreamQueueTest, HowLateADeviceRunsChangesNoBit) {
  const auto expected = SumsOf(3, 1, Planted::kNothing);
  EXPECT_NE(expected[0], expected[1]);
  for (uint64_t seed = 2; seed <= 20; ++seed)
    EXPECT_EQ(SumsOf(3, seed, Planted::kNothing), expected) << seed;
}

TEST(StreamQueueTest, AMissingFenceOrWaitIsFound) {
  const auto expected = SumsOf(3, 1, Planted::kNothing);
  for (const Planted planted : {Planted::kNoFences, Planted::kNoWait}) {
    int found = 0;
    for (uint64_t seed = 2; seed <= 20; ++seed) found += SumsOf(3, seed, planted) != expected;
    EXPECT_GE(found, 15) << static_cast<int>(planted);
  }
}

TEST(StreamQueueTest, ADeviceThatHangsIsToldApartFromAPeerThatIsLate) {
  TakeLateStream();
  absl::Notification ended;
  const auto queue = MakeCollectiveQueue(kLateDevice, nullptr, absl::Milliseconds(50));
  const absl::Status late_peer = queue->Wait(queue->Submit("summing", [] {
    absl::SleepFor(absl::Milliseconds(300));
    return absl::OkStatus();
  }));
  EXPECT_TRUE(late_peer.ok()) << late_peer;
  const HungLateStream hung;
  const absl::Status status = queue->Wait(queue->Submit("summing", [&] {
    ended.WaitForNotification();
    return MarkPeerFault(absl::DeadlineExceededError("deadline passed"));
  }));
  EXPECT_EQ(status, absl::DeadlineExceededError("summing: the device has not done it after 50ms"));
  EXPECT_FALSE(IsPeerFault(status));
  ended.Notify();
}

// At Submit, before the work, behind it, at Wait; a destructor may be what waits.
TEST(StreamQueueTest, AnErrorOfTheDevicesEventsIsAnErrorOfTheQueue) {
  for (int events = 0; events < 4; ++events) {
    const auto queue = MakeCollectiveQueue(kLateDevice);
    FailLateEventsAfter(events);
    absl::Status first, again;
    EXPECT_NO_THROW({
      first = queue->Wait(queue->Submit("summing", [] { return absl::OkStatus(); }));
      again = queue->Wait(queue->Submit("more", [] { return absl::OkStatus(); }));
    }) << events;
    FailLateEventsAfter(-1);
    EXPECT_EQ(first.code(), absl::StatusCode::kInternal) << events << ": " << first;
    EXPECT_TRUE(absl::StrContains(first.message(), "the device has failed")) << first;
    EXPECT_EQ(again, first) << events;
  }
}

}  // namespace
}  // namespace longhaul
