#include "worker/movement/movement.h"

#include <gtest/gtest.h>

#include <vector>

namespace longhaul {
namespace {

// Enqueues nothing more after so many works, as a device that has no memory left for them.
class FailingMovement : public Movement {
 public:
  explicit FailingMovement(int works) : works_(works) {}
  absl::StatusOr<std::shared_ptr<std::byte>> Allocate(MemorySide, int64_t,
                                                      absl::string_view) override {
    return absl::UnimplementedError("not for this test");
  }
  absl::StatusOr<MoveToken> Fork() override { return MoveToken{}; }
  absl::Status Join(const MoveToken&) override { return error(); }
  bool Done(const MoveToken& token) override { return token.number <= ended_; }
  absl::Status Wait(const MoveToken& token, absl::string_view what) override {
    if (!Done(token)) return absl::DeadlineExceededError("waits for what never began");
    return error();
  }

 private:
  absl::Status Enqueue(const MoveToken& token, Work) override {
    if (ended_ == works_) return absl::ResourceExhaustedError("no memory");
    ended_ = token.number;
    return absl::OkStatus();
  }

  const int works_;
  // Of the compute queue, which alone is used.
  int64_t ended_ = 0;
};

TEST(MovementTest, NobodyWaitsForAWorkThatWasNotEnqueued) {
  FailingMovement movement(1);
  const DeviceWork work = [](void*) { return absl::OkStatus(); };
  const MoveToken first = movement.Compute(work, {}, {});
  EXPECT_TRUE(movement.Wait(first, "the first").ok());
  const MoveToken second = movement.Compute(work, {}, {});
  EXPECT_TRUE(movement.Done(second));
  EXPECT_EQ(movement.Wait(second, "the second").code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(movement.WaitAll("the end").code(), absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace longhaul
