// Linked into every program of a build with ThreadSanitizer (common/cmake/targets.cmake).
//
// Debian's Abseil is not instrumented, so ThreadSanitizer does not see that an absl::Mutex orders
// what two threads do, and reports everything that a mutex guards. Here the program has the members
// of absl::Mutex and absl::CondVar that lock, unlock and wait. They call those of the library, and
// tell ThreadSanitizer before and after it what happens to the mutex. A condition that the library
// evaluates is not looked at: the thread that evaluates it has the mutex. The same for
// absl::Notification, whose waits need no mutex once it has been notified.
//
// Nor is gRPC's library, which hands what a thread asks of a call to the thread that runs its
// callback. Its headers are compiled with the program. So grpc_call_start_batch is here too: what
// came before it, comes before the callback.
#include <dlfcn.h>
#include <grpc/grpc.h>
#include <sanitizer/tsan_interface.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <type_traits>
#include <utility>

#include "absl/base/options.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"

// Made by the linker.
extern "C" const char __executable_start, etext;

namespace {

using absl::Condition;
using absl::CondVar;
using absl::Duration;
using absl::Mutex;
using absl::Notification;
using absl::Time;

#define LH_TEXT_OF(name) #name
#define LH_TEXT(name) LH_TEXT_OF(name)
static_assert(sizeof(LH_TEXT(ABSL_OPTION_INLINE_NAMESPACE_NAME)) - 1 == 7,
              "its length is in the names below");

// The library's function behind the one that calls this.
template <typename Function>
Function Next(const char* name) {
  void* const found = dlsym(RTLD_NEXT, name);
  if (found == nullptr) {
    std::fprintf(stderr, "no %s in any library: %s\n", name, dlerror());
    std::abort();
  }
  return reinterpret_cast<Function>(found);
}

#define LH_NEXT_OF(type, prefix, suffix) \
  static const auto next = Next<type>(prefix LH_TEXT(ABSL_OPTION_INLINE_NAMESPACE_NAME) suffix)
#define LH_NEXT(type, suffix) LH_NEXT_OF(type, "_ZN4absl7", suffix)
#define LH_NEXT_CONST(type, suffix) LH_NEXT_OF(type, "_ZNK4absl7", suffix)

// Whether code is of the program itself, not of a library.
bool IsOfProgram(const void* code) {
  return code >= static_cast<const void*>(&__executable_start) &&
         code < static_cast<const void*>(&etext);
}

// Mutexes that this thread holds as a reader.
constexpr int kReadMax = 32;
thread_local const Mutex* read_held[kReadMax];

unsigned ModeOf(const Mutex* mutex) {
  const bool read = std::find(read_held, std::end(read_held), mutex) != std::end(read_held);
  return read ? __tsan_mutex_read_lock : 0;
}

void Exchange(const Mutex* from, const Mutex* to) {
  const auto slot = std::find(read_held, std::end(read_held), from);
  if (slot == std::end(read_held)) std::abort();
  *slot = to;
}

// Whether this thread is in a function of the library, which may call another one of these.
thread_local bool inside = false;

struct Inside {
  Inside() { inside = true; }
  ~Inside() { inside = false; }
};

template <typename Call>
auto Locking(Mutex* mutex, unsigned mode, Call call) {
  if (inside) return call();
  const Inside scope;
  __tsan_mutex_pre_lock(mutex, mode);
  if constexpr (std::is_void_v<decltype(call())>) {
    call();
    __tsan_mutex_post_lock(mutex, mode, 0);
  } else {
    const auto result = call();
    // What waits for a condition has the mutex in any case.
    const bool held = (mode & __tsan_mutex_try_lock) == 0 || result;
    __tsan_mutex_post_lock(mutex, held ? mode : mode | __tsan_mutex_try_lock_failed, 0);
    return result;
  }
}

template <typename Call>
void Unlocking(Mutex* mutex, unsigned mode, Call call) {
  if (inside) return call();
  const Inside scope;
  __tsan_mutex_pre_unlock(mutex, mode);
  call();
  __tsan_mutex_post_unlock(mutex, mode);
}

// The mutex is held before and after the call, and may be free meanwhile.
template <typename Call>
auto Waiting(Mutex* mutex, Call call) {
  if (inside) return call();
  const unsigned mode = ModeOf(mutex);
  Unlocking(mutex, mode, [] {});
  return Locking(mutex, mode, call);
}

// The functions that gRPC's headers give as callbacks; they are few. Relaxed, so that they order
// nothing for ThreadSanitizer.
using Callback = void (*)(grpc_completion_queue_functor*, int);
constexpr std::size_t kCallbacksMax = 8;
std::array<std::atomic<Callback>, kCallbacksMax> callbacks;

template <std::size_t kIndex>
void RunCallback(grpc_completion_queue_functor* functor, int ok) {
  __tsan_acquire(functor);
  callbacks[kIndex].load(std::memory_order_relaxed)(functor, ok);
}

template <std::size_t... kIndices>
constexpr std::array<Callback, kCallbacksMax> Runners(std::index_sequence<kIndices...>) {
  return {RunCallback<kIndices>...};
}
constexpr std::array kRunners = Runners(std::make_index_sequence<kCallbacksMax>());

// What runs `callback` behind what released its functor.
Callback RunnerOf(Callback callback) {
  if (std::find(kRunners.begin(), kRunners.end(), callback) != kRunners.end()) return callback;
  for (std::size_t i = 0; i < kCallbacksMax; ++i) {
    Callback held = nullptr;
    if (callbacks[i].compare_exchange_strong(held, callback, std::memory_order_relaxed) ||
        held == callback)
      return kRunners[i];
  }
  std::abort();
}

}  // namespace

// A tag is a functor with a callback of the program, or an object with a table of virtual
// functions, which is no code.
extern "C" __attribute__((no_sanitize("thread"))) grpc_call_error grpc_call_start_batch(
    grpc_call* call, const grpc_op* ops, size_t count, void* tag, void* reserved) {
  static const auto next = Next<decltype(&grpc_call_start_batch)>("grpc_call_start_batch");
  auto* const functor = static_cast<grpc_completion_queue_functor*>(tag);
  if (tag != nullptr && IsOfProgram(reinterpret_cast<const void*>(functor->functor_run))) {
    functor->functor_run = RunnerOf(functor->functor_run);
    __tsan_release(functor);
  }
  return next(call, ops, count, tag, reserved);
}

namespace absl {
ABSL_NAMESPACE_BEGIN

Mutex::~Mutex() {
  LH_NEXT(void (*)(Mutex*), "5MutexD1Ev");
  // Of a mutex of gRPC, which may end it without the mutex: with atomics that are not seen.
  if (IsOfProgram(__builtin_return_address(0))) __tsan_mutex_destroy(this, 0);
  next(this);
}

void Mutex::Lock() {
  LH_NEXT(void (*)(Mutex*), "5Mutex4LockEv");
  Locking(this, 0, [&] { next(this); });
}

bool Mutex::TryLock() {
  LH_NEXT(bool (*)(Mutex*), "5Mutex7TryLockEv");
  return Locking(this, __tsan_mutex_try_lock, [&] { return next(this); });
}

void Mutex::Unlock() {
  LH_NEXT(void (*)(Mutex*), "5Mutex6UnlockEv");
  Unlocking(this, 0, [&] { next(this); });
}

void Mutex::ReaderLock() {
  LH_NEXT(void (*)(Mutex*), "5Mutex10ReaderLockEv");
  Locking(this, __tsan_mutex_read_lock, [&] { next(this); });
  Exchange(nullptr, this);
}

bool Mutex::ReaderTryLock() {
  LH_NEXT(bool (*)(Mutex*), "5Mutex13ReaderTryLockEv");
  const bool held =
      Locking(this, __tsan_mutex_read_lock | __tsan_mutex_try_lock, [&] { return next(this); });
  if (held) Exchange(nullptr, this);
  return held;
}

void Mutex::ReaderUnlock() {
  LH_NEXT(void (*)(Mutex*), "5Mutex12ReaderUnlockEv");
  Exchange(this, nullptr);
  Unlocking(this, __tsan_mutex_read_lock, [&] { next(this); });
}

void Mutex::LockWhen(const Condition& condition) {
  LH_NEXT(void (*)(Mutex*, const Condition&), "5Mutex8LockWhenERKNS0_9ConditionE");
  Locking(this, 0, [&] { next(this, condition); });
}

bool Mutex::LockWhenWithTimeout(const Condition& condition, Duration timeout) {
  LH_NEXT(bool (*)(Mutex*, const Condition&, Duration),
          "5Mutex19LockWhenWithTimeoutERKNS0_9ConditionENS0_8DurationE");
  return Locking(this, 0, [&] { return next(this, condition, timeout); });
}

bool Mutex::LockWhenWithDeadline(const Condition& condition, Time deadline) {
  LH_NEXT(bool (*)(Mutex*, const Condition&, Time),
          "5Mutex20LockWhenWithDeadlineERKNS0_9ConditionENS0_4TimeE");
  return Locking(this, 0, [&] { return next(this, condition, deadline); });
}

void Mutex::Await(const Condition& condition) {
  LH_NEXT(void (*)(Mutex*, const Condition&), "5Mutex5AwaitERKNS0_9ConditionE");
  Waiting(this, [&] { next(this, condition); });
}

bool Mutex::AwaitWithTimeout(const Condition& condition, Duration timeout) {
  LH_NEXT(bool (*)(Mutex*, const Condition&, Duration),
          "5Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE");
  return Waiting(this, [&] { return next(this, condition, timeout); });
}

bool Mutex::AwaitWithDeadline(const Condition& condition, Time deadline) {
  LH_NEXT(bool (*)(Mutex*, const Condition&, Time),
          "5Mutex17AwaitWithDeadlineERKNS0_9ConditionENS0_4TimeE");
  return Waiting(this, [&] { return next(this, condition, deadline); });
}

void CondVar::Wait(Mutex* mutex) {
  LH_NEXT(void (*)(CondVar*, Mutex*), "7CondVar4WaitEPNS0_5MutexE");
  Waiting(mutex, [&] { next(this, mutex); });
}

bool CondVar::WaitWithTimeout(Mutex* mutex, Duration timeout) {
  LH_NEXT(bool (*)(CondVar*, Mutex*, Duration),
          "7CondVar15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE");
  return Waiting(mutex, [&] { return next(this, mutex, timeout); });
}

bool CondVar::WaitWithDeadline(Mutex* mutex, Time deadline) {
  LH_NEXT(bool (*)(CondVar*, Mutex*, Time), "7CondVar16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE");
  return Waiting(mutex, [&] { return next(this, mutex, deadline); });
}

void Notification::Notify() {
  LH_NEXT(void (*)(Notification*), "12Notification6NotifyEv");
  __tsan_release(this);
  next(this);
}

void Notification::WaitForNotification() const {
  LH_NEXT_CONST(void (*)(const Notification*), "12Notification19WaitForNotificationEv");
  next(this);
  __tsan_acquire(const_cast<Notification*>(this));
}

bool Notification::WaitForNotificationWithTimeout(Duration timeout) const {
  LH_NEXT_CONST(bool (*)(const Notification*, Duration),
                "12Notification30WaitForNotificationWithTimeoutENS0_8DurationE");
  const bool notified = next(this, timeout);
  if (notified) __tsan_acquire(const_cast<Notification*>(this));
  return notified;
}

ABSL_NAMESPACE_END
}  // namespace absl

// Libraries are not instrumented: what they do themselves is not looked at. Memory that cannot be
// had is an error that tests look for.
extern "C" const char* __tsan_default_options() {
  return "ignore_noninstrumented_modules=1:allocator_may_return_null=1";
}

// What is reported and is right. Each with its reason.
extern "C" const char* __tsan_default_suppressions() {
  return
      // It comes behind everything else of its call, and ends the handler's object.
      "race:CallOnDone\n"
      // A call's last object. The end of the server waits for it, by an atomic counter of gRPC.
      "race:longhaul::coordinator::GuardedCall::~GuardedCall\n"
      // Locks in the wrong order, to see that Abseil notices.
      "deadlock:mutex_checks_test.cc\n";
}
