// Which operations of a disk are in progress, so that one that does not return (a network file
// system without its server, a failing device) can be named. Whoever waits for it can say nothing.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/io/filesystem.h"

namespace longhaul {

// An operation that lasts for so long counts as hanging: it is named.
inline constexpr absl::Duration kSlowOperation = absl::Seconds(10);

// Thread-safe. Nothing blocks on a disk.
class SlowOperations {
 public:
  // An operation in progress: a local variable around the call of the system.
  class Operation {
   public:
    // `all` may be null. `what` ("write") and `path` outlive the object.
    Operation(SlowOperations* all, const char* what, absl::string_view path);
    ~Operation();
    Operation(const Operation&) = delete;
    Operation& operator=(const Operation&) = delete;

   private:
    friend class SlowOperations;
    SlowOperations* const all_;
    const char* const what_;
    const absl::string_view path_;
    absl::Time begun_;
    // Whether `tell` was called for it.
    bool told_ = false;
    Operation* before_ = nullptr;
    Operation* after_ = nullptr;
  };

  struct Options {
    // Gets a line about each operation that hangs, and one when it has returned. May be empty.
    std::function<void(const std::string& line)> tell;
    // Tests have their own. As SteadyTime.
    std::function<absl::Time()> now;
  };
  explicit SlowOperations(Options options);
  // No operation is in progress any more.
  ~SlowOperations() = default;

  // Tells of operations that hang, once each. `Watch` calls it every second, on a thread that ends
  // with the object.
  void Look() ABSL_LOCKS_EXCLUDED(mutex_);
  void Watch();

  // The oldest operation that has lasted for `at_least`, of those whose path is wanted, in words:
  // "write of PATH has not returned for 12s". Empty: there is none.
  using Wanted = absl::FunctionRef<bool(absl::string_view path)>;
  std::string Oldest(absl::Duration at_least, Wanted wanted) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Of the files in this folder, and below.
  std::string OldestBelow(absl::string_view folder, absl::Duration at_least = kSlowOperation) const;
  // How long the oldest operation of all has lasted, if that is at least kSlowOperation; else zero.
  absl::Duration Longest() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  const Options options_;
  mutable absl::Mutex mutex_;
  // The oldest and the newest one.
  Operation* first_ ABSL_GUARDED_BY(mutex_) = nullptr;
  Operation* last_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::jthread thread_;
};

// Whether the path is that of the folder, or of something in it or below.
bool IsBelow(absl::string_view path, absl::string_view folder);

// A file system whose operations, and those of its files, are known to `operations`. `base` and
// `operations` outlive it and its files.
std::unique_ptr<FileSystem> MakeWatchedFileSystem(FileSystem* base, SlowOperations* operations);

}  // namespace longhaul
