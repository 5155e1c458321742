// Abseil's waits with a time limit (Mutex, CondVar, Notification, and with them those of gRPC's
// timers) last as long as they should while the wall clock is set. The Abseil of Debian 12 sleeps
// until a time of the wall clock: set back by an hour, a wait of a second would take an hour and a
// second. Later versions of Abseil do without this.
//
// Nothing calls it by name: CMakeLists.txt makes the linker take it into every program.
#include "absl/base/config.h"

// The first release that sleeps until a time of the monotonic clock.
#if ABSL_LTS_RELEASE_VERSION < 20230802

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <utility>

#include "absl/synchronization/internal/create_thread_identity.h"
#include "absl/synchronization/internal/per_thread_sem.h"
#include "absl/synchronization/internal/waiter.h"
#include "absl/time/time.h"

namespace longhaul {
namespace {

using absl::synchronization_internal::KernelTimeout;
using absl::synchronization_internal::Waiter;
using Semaphore = std::atomic<int32_t>;

// A Waiter is the semaphore of a thread: how many times it was woken and did not wait. Abseil's
// Post adds one, and wakes it.
static_assert(ABSL_WAITER_MODE == ABSL_WAITER_MODE_FUTEX && sizeof(Waiter) == sizeof(Semaphore));

absl::Time Read(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return absl::TimeFromTimespec(now);
}

// What is left until a time of the wall clock. If that was set since this thread waited the last
// time, nobody knows whether the time was meant before or after. The nearer one is taken.
absl::Duration Left(absl::Time end, absl::Time steady) {
  // A clock that is corrected bit by bit is not set: it goes faster or slower by a twelfth at most.
  constexpr int kCorrectedBy = 10;
  const absl::Duration ahead = Read(CLOCK_REALTIME) - steady;
  thread_local absl::Duration ahead_before = ahead;
  thread_local absl::Time waited_before = steady;
  const absl::Duration set = ahead - std::exchange(ahead_before, ahead);
  const absl::Duration corrected = (steady - std::exchange(waited_before, steady)) / kCorrectedBy;
  const absl::Duration left = end - steady - ahead, left_before = left + set;
  const bool nearer = absl::AbsDuration(left_before) < absl::AbsDuration(left);
  return absl::AbsDuration(set) > corrected && nearer ? left_before : left;
}

// In time that passes evenly.
timespec EndOf(KernelTimeout timeout) {
  // A thread that was woken for nothing asks for the same end again. By then the clock may have
  // been set.
  thread_local absl::Time asked = absl::InfinitePast();
  thread_local timespec end;
  const absl::Time asks = absl::TimeFromTimespec(timeout.MakeAbsTimespec());
  if (asks != std::exchange(asked, asks)) {
    const absl::Time steady = Read(CLOCK_MONOTONIC);
    end = absl::ToTimespec(steady + std::max(Left(asks, steady), absl::ZeroDuration()));
  }
  return end;
}

}  // namespace
}  // namespace longhaul

extern "C" {

// Abseil's own is weak, for programs to replace. Returns whether the thread was woken before the
// end.
bool ABSL_INTERNAL_C_SYMBOL(AbslInternalPerThreadSemWait)(
    absl::synchronization_internal::KernelTimeout timeout) {
  using longhaul::Semaphore;
  auto* const woken =
      reinterpret_cast<Semaphore*>(absl::synchronization_internal::Waiter::GetWaiter(
          absl::synchronization_internal::GetOrCreateCurrentThreadIdentity()));
  const bool ends = timeout.has_timeout();
  const timespec end = ends ? longhaul::EndOf(timeout) : timespec();
  while (true) {
    int32_t count = woken->load(std::memory_order_relaxed);
    while (count > 0) {
      if (woken->compare_exchange_weak(count, count - 1, std::memory_order_acquire,
                                       std::memory_order_relaxed))
        return true;
    }
    // Without FUTEX_CLOCK_REALTIME the end is one of CLOCK_MONOTONIC.
    const int64_t slept = syscall(SYS_futex, woken, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, 0,
                                  ends ? &end : nullptr, nullptr, FUTEX_BITSET_MATCH_ANY);
    if (slept != 0 && errno == ETIMEDOUT) return false;
  }
}

}  // extern "C"

#endif

extern "C" {
extern const char longhaul_steady_waits;
const char longhaul_steady_waits = 1;
}
