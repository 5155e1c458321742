#include "common/rpc/bulk_call.h"

#include <thread>
#include <vector>

#include "absl/synchronization/mutex.h"

namespace longhaul {

absl::Status RunParts(
    size_t parts, const BulkCall& call,
    absl::FunctionRef<absl::Status(size_t part, const std::stop_token&, WireBytes&)> run) {
  std::stop_source group;
  const std::stop_callback forward(call.stop, [&group] { group.request_stop(); });
  std::vector<WireBytes> wire(parts);
  absl::Mutex mutex;
  absl::Status first;
  const auto run_one = [&](size_t i) {
    const absl::Status status = run(i, group.get_token(), wire[i]);
    if (status.ok()) return;
    {
      absl::MutexLock lock(&mutex);
      first.Update(status);
    }
    group.request_stop();
  };
  std::vector<std::jthread> threads;
  for (size_t i = 0; i + 1 < parts; ++i) threads.emplace_back(run_one, i);
  run_one(parts - 1);
  // Joins the threads.
  threads.clear();
  for (const WireBytes& bytes : wire) {
    if (call.wire != nullptr) *call.wire += bytes;
  }
  return first;
}

}  // namespace longhaul
