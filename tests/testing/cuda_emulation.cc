// _FORTIFY_SOURCE forbids longjmp to another stack, which is how fibers switch.
#undef _FORTIFY_SOURCE
#include "tests/testing/cuda_emulation.h"

#include <ucontext.h>

#include <csetjmp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LONGHAUL_SANITIZED
#endif
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

namespace longhaul::cuda_emulation {

Index thread_index, block_index;

namespace {

constexpr int kWarp = 32;
constexpr size_t kStackBytes = 64 << 10;
// Not a multiple of a large power of two: otherwise the tops of all stacks would share a few cache
// lines.
constexpr size_t kStackStride = kStackBytes + 11 * 64;

const char* NameOf(Meeting what) {
  switch (what) {
    case Meeting::kBarrier:
      return "__syncthreads";
    case Meeting::kWarp:
      return "__syncwarp";
    case Meeting::kShuffleXor:
      return "__shfl_xor_sync";
    case Meeting::kBallot:
      return "__ballot_sync";
    case Meeting::kAdd:
      return "__reduce_add_sync";
  }
  return "?";
}

// Where a fiber, or the scheduler, continues.
struct Execution {
  // Used at its beginning. Sanitizers follow it from stack to stack.
  ucontext_t context;
#ifndef LONGHAUL_SANITIZED
  // Saves no signal mask, so a switch needs no system call.
  jmp_buf at;
#endif
#ifdef __SANITIZE_THREAD__
  void* fiber = nullptr;
#endif
  bool begun = false;
};

void Switch(Execution& from, Execution& to) {
#ifdef __SANITIZE_THREAD__
  from.fiber = __tsan_get_current_fiber();
  if (to.fiber == nullptr) to.fiber = __tsan_create_fiber(0);
  __tsan_switch_to_fiber(to.fiber, 0);
#endif
#ifdef LONGHAUL_SANITIZED
  to.begun = true;
  LH_CHECK(swapcontext(&from.context, &to.context) == 0, "no context");
#else
  if (_setjmp(from.at) != 0) return;
  if (std::exchange(to.begun, true)) _longjmp(to.at, 1);
  setcontext(&to.context);
#endif
}

struct Fiber {
  enum class State { kReady, kWaiting, kDone };
  State state = State::kReady;
  Meeting what = Meeting::kBarrier;
  uint32_t mask = 0;
  uint64_t value = 0, result = 0;
};

// Threads of a warp that wait for each other.
struct Group {
  Meeting what;
  uint32_t mask;
  int argument;
  uint32_t arrived = 0;
};

class ThreadBlock {
 public:
  ThreadBlock(int threads, Order order, absl::FunctionRef<void()> kernel)
      : kernel_(kernel), order_(order), fibers_(threads), groups_((threads + kWarp - 1) / kWarp) {
    if (executions_.size() >= fibers_.size()) return;
    executions_ = std::vector<Execution>(fibers_.size());
    stacks_ = std::vector<char>(fibers_.size() * kStackStride);
  }

  absl::Status Run();
  uint64_t Meet(Meeting what, uint32_t mask, int argument, uint64_t value);

 private:
  void Resume(int thread);
  static void Enter();
  void Pause();
  void MeetAtBarrier();
  void MeetInWarp(const Group& group);
  void Complete(const Group& group, int warp);
  absl::Status Diverged() const;

  // Fibers are kept from one thread block to the next: where each continues.
  static inline std::vector<Execution> executions_;
  static inline std::vector<char> stacks_;

  const absl::FunctionRef<void()> kernel_;
  const Order order_;
  std::vector<Fiber> fibers_;
  // By warp: groups that are not complete.
  std::vector<std::vector<Group>> groups_;
  int at_barrier_ = 0;
  int running_ = 0;
  std::string fault_;
  Execution scheduler_ = {.begun = true};
};

ThreadBlock* current = nullptr;

absl::Status ThreadBlock::Run() {
  current = this;
  const int threads = static_cast<int>(fibers_.size());
  for (bool moved = true; moved && fault_.empty();) {
    moved = false;
    for (int i = 0; i < threads && fault_.empty(); ++i) {
      const int thread = order_ == Order::kForwards ? i : threads - 1 - i;
      if (fibers_[thread].state != Fiber::State::kReady) continue;
      moved = true;
      Resume(thread);
    }
  }
  current = nullptr;
  const absl::Status status = Diverged();
  // Some fibers are in the middle of the kernel.
  if (!status.ok()) executions_.clear();
  return status;
}

void ThreadBlock::Resume(int thread) {
  running_ = thread;
  thread_index.x = thread;
  Execution& execution = executions_[thread];
  if (!execution.begun) {
    LH_CHECK(getcontext(&execution.context) == 0, "no context");
    execution.context.uc_stack.ss_sp = stacks_.data() + thread * kStackStride;
    execution.context.uc_stack.ss_size = kStackBytes;
    execution.context.uc_link = nullptr;
    makecontext(&execution.context, &ThreadBlock::Enter, 0);
  }
  Switch(scheduler_, execution);
}

void ThreadBlock::Enter() {
  for (;;) {
    current->kernel_();
    current->fibers_[current->running_].state = Fiber::State::kDone;
    current->Pause();
  }
}

void ThreadBlock::Pause() { Switch(executions_[running_], scheduler_); }

uint64_t ThreadBlock::Meet(Meeting what, uint32_t mask, int argument, uint64_t value) {
  Fiber& fiber = fibers_[running_];
  fiber.what = what;
  fiber.mask = mask;
  fiber.value = value;
  fiber.state = Fiber::State::kWaiting;
  if (what == Meeting::kBarrier) {
    MeetAtBarrier();
  } else {
    MeetInWarp({what, mask, argument});
  }
  if (fiber.state == Fiber::State::kWaiting) Pause();
  return fiber.result;
}

void ThreadBlock::MeetAtBarrier() {
  if (++at_barrier_ < static_cast<int>(fibers_.size())) return;
  at_barrier_ = 0;
  for (Fiber& fiber : fibers_) fiber.state = Fiber::State::kReady;
}

void ThreadBlock::MeetInWarp(const Group& group) {
  const int warp = running_ / kWarp;
  const uint32_t self = 1u << (running_ % kWarp);
  if ((group.mask & self) == 0) {
    fault_ = absl::StrCat("thread ", running_, " calls ", NameOf(group.what),
                          " with a mask that it is not in");
    return;
  }
  std::vector<Group>& open = groups_[warp];
  for (size_t i = 0; i < open.size(); ++i) {
    if (open[i].what != group.what || open[i].mask != group.mask ||
        open[i].argument != group.argument)
      continue;
    open[i].arrived |= self;
    if (open[i].arrived != open[i].mask) return;
    open[i] = open.back();
    open.pop_back();
    return Complete(group, warp);
  }
  open.push_back(group);
  open.back().arrived = self;
}

void ThreadBlock::Complete(const Group& group, int warp) {
  Fiber* const lanes = &fibers_[warp * kWarp];
  uint32_t ballot = 0, sum = 0;
  for (int lane = 0; lane < kWarp; ++lane) {
    if ((group.mask >> lane & 1) == 0) continue;
    const uint32_t value = static_cast<uint32_t>(lanes[lane].value);
    if (value != 0) ballot |= 1u << lane;
    sum += value;
  }
  for (int lane = 0; lane < kWarp; ++lane) {
    if ((group.mask >> lane & 1) == 0) continue;
    lanes[lane].state = Fiber::State::kReady;
    lanes[lane].result = group.what == Meeting::kAdd ? sum : ballot;
    if (group.what != Meeting::kShuffleXor) continue;
    const int other = lane ^ group.argument;
    if (other >= kWarp || (group.mask >> other & 1) == 0) {
      fault_ = absl::StrCat("lane ", lane, " reads lane ", other, ", which is not in its mask");
      return;
    }
    lanes[lane].result = lanes[other].value;
  }
}

absl::Status ThreadBlock::Diverged() const {
  if (!fault_.empty()) return absl::InternalError(fault_);
  int waiting = 0, example = 0;
  for (size_t i = 0; i < fibers_.size(); ++i) {
    if (fibers_[i].state == Fiber::State::kDone) continue;
    ++waiting;
    example = static_cast<int>(i);
  }
  if (waiting == 0) return absl::OkStatus();
  const Fiber& fiber = fibers_[example];
  return absl::InternalError(absl::StrCat(
      "the threads diverged: ", waiting, " of ", fibers_.size(), " wait for ever; thread ", example,
      " at ", NameOf(fiber.what), " with mask ", absl::Hex(fiber.mask)));
}

}  // namespace

uint64_t Meet(Meeting what, uint32_t mask, int argument, uint64_t value) {
  return current->Meet(what, mask, argument, value);
}

absl::Status Launch(int blocks, int threads, Order order, absl::FunctionRef<void()> kernel) {
  for (int block = 0; block < blocks; ++block) {
    block_index.x = block;
    if (absl::Status status = ThreadBlock(threads, order, kernel).Run(); !status.ok())
      return status;
  }
  return absl::OkStatus();
}

}  // namespace longhaul::cuda_emulation
