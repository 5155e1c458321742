#include "common/io/slow_operations.h"

#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"

namespace longhaul {
namespace {

using Operation = SlowOperations::Operation;

std::string Text(absl::Duration age) {
  return absl::FormatDuration(absl::Trunc(age, absl::Seconds(1)));
}

class WatchedFile : public File {
 public:
  WatchedFile(std::unique_ptr<File> base, SlowOperations* operations, std::string path)
      : operations_(operations), path_(std::move(path)), base_(std::move(base)) {}
  ~WatchedFile() override {
    // A network file system writes what is left.
    const Operation operation(operations_, "close", path_);
    base_.reset();
  }

  absl::StatusOr<int64_t> ReadAt(int64_t offset, absl::Span<char> out) const override {
    const Operation operation(operations_, "read", path_);
    return base_->ReadAt(offset, out);
  }
  absl::Status WriteAt(int64_t offset, absl::string_view data) override {
    const Operation operation(operations_, "write", path_);
    return base_->WriteAt(offset, data);
  }
  absl::Status SyncData() override {
    const Operation operation(operations_, "sync", path_);
    return base_->SyncData();
  }
  void WriteBehind(int64_t offset, int64_t size) override {
    const Operation operation(operations_, "write", path_);
    base_->WriteBehind(offset, size);
  }
  absl::Status Preallocate(int64_t size) override {
    const Operation operation(operations_, "preallocation", path_);
    return base_->Preallocate(size);
  }
  absl::Status Truncate(int64_t size) override {
    const Operation operation(operations_, "truncation", path_);
    return base_->Truncate(size);
  }
  absl::StatusOr<int64_t> Size() const override {
    const Operation operation(operations_, "stat", path_);
    return base_->Size();
  }
  void DropCache() override {
    const Operation operation(operations_, "fadvise", path_);
    base_->DropCache();
  }

 private:
  SlowOperations* const operations_;
  const std::string path_;
  std::unique_ptr<File> base_;
};

class WatchedFileSystem : public FileSystem {
 public:
  WatchedFileSystem(FileSystem* base, SlowOperations* operations)
      : base_(base), operations_(operations) {}

  absl::StatusOr<std::unique_ptr<File>> Open(const std::string& path) override {
    const Operation operation(operations_, "open", path);
    return Watched(base_->Open(path), path);
  }
  absl::StatusOr<std::unique_ptr<File>> Create(const std::string& path) override {
    const Operation operation(operations_, "creation", path);
    return Watched(base_->Create(path), path);
  }
  absl::Status CreateDir(const std::string& path) override {
    const Operation operation(operations_, "mkdir", path);
    return base_->CreateDir(path);
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    const Operation operation(operations_, "rename", to);
    return base_->Rename(from, to);
  }
  absl::Status Remove(const std::string& path) override {
    const Operation operation(operations_, "removal", path);
    return base_->Remove(path);
  }
  absl::StatusOr<std::vector<std::string>> List(const std::string& path) override {
    const Operation operation(operations_, "list", path);
    return base_->List(path);
  }
  absl::Status SyncDir(const std::string& path) override {
    const Operation operation(operations_, "sync", path);
    return base_->SyncDir(path);
  }
  absl::StatusOr<int64_t> FreeBytes(const std::string& path) override {
    const Operation operation(operations_, "statvfs", path);
    return base_->FreeBytes(path);
  }

 private:
  absl::StatusOr<std::unique_ptr<File>> Watched(absl::StatusOr<std::unique_ptr<File>> file,
                                                const std::string& path) {
    LH_RETURN_IF_ERROR(file.status());
    return std::make_unique<WatchedFile>(*std::move(file), operations_, path);
  }

  FileSystem* const base_;
  SlowOperations* const operations_;
};

}  // namespace

SlowOperations::Operation::Operation(SlowOperations* all, const char* what, absl::string_view path)
    : all_(all), what_(what), path_(path) {
  if (all == nullptr) return;
  absl::MutexLock lock(&all->mutex_);
  begun_ = all->options_.now();
  before_ = std::exchange(all->last_, this);
  (before_ == nullptr ? all->first_ : before_->after_) = this;
}

SlowOperations::Operation::~Operation() {
  if (all_ == nullptr) return;
  {
    absl::MutexLock lock(&all_->mutex_);
    (before_ == nullptr ? all_->first_ : before_->after_) = after_;
    (after_ == nullptr ? all_->last_ : after_->before_) = before_;
  }
  if (!told_ || !all_->options_.tell) return;
  all_->options_.tell(absl::StrCat(what_, " of ", path_, " has returned after ",
                                   Text(all_->options_.now() - begun_)));
}

SlowOperations::SlowOperations(Options options)
    : options_{std::move(options.tell), options.now ? std::move(options.now) : SteadyTime} {}

void SlowOperations::Look() {
  std::vector<std::string> lines;
  {
    absl::MutexLock lock(&mutex_);
    const absl::Time now = options_.now();
    for (Operation* o = first_; o != nullptr && now - o->begun_ >= kSlowOperation; o = o->after_) {
      if (std::exchange(o->told_, true)) continue;
      lines.push_back(absl::StrCat(o->what_, " of ", o->path_, " has not returned for ",
                                   Text(now - o->begun_), ": its disk hangs"));
    }
  }
  if (!options_.tell) return;
  for (const std::string& line : lines) options_.tell(line);
}

void SlowOperations::Watch() {
  thread_ = std::jthread([this](const std::stop_token& stop) {
    const std::stop_callback wake(stop, [this] { absl::MutexLock lock(&mutex_); });
    while (!stop.stop_requested()) {
      Look();
      absl::MutexLock lock(&mutex_);
      const auto stopped = [&stop] { return stop.stop_requested(); };
      mutex_.AwaitWithTimeout(absl::Condition(&stopped), absl::Seconds(1));
    }
  });
}

std::string SlowOperations::Oldest(absl::Duration at_least, Wanted wanted) const {
  absl::MutexLock lock(&mutex_);
  const absl::Time now = options_.now();
  for (const Operation* o = first_; o != nullptr && now - o->begun_ >= at_least; o = o->after_) {
    if (wanted(o->path_))
      return absl::StrCat(o->what_, " of ", o->path_, " has not returned for ",
                          Text(now - o->begun_));
  }
  return "";
}

std::string SlowOperations::OldestBelow(absl::string_view folder, absl::Duration at_least) const {
  return Oldest(at_least, [folder](absl::string_view path) { return IsBelow(path, folder); });
}

absl::Duration SlowOperations::Longest() const {
  absl::MutexLock lock(&mutex_);
  if (first_ == nullptr) return absl::ZeroDuration();
  const absl::Duration age = options_.now() - first_->begun_;
  return age >= kSlowOperation ? age : absl::ZeroDuration();
}

bool IsBelow(absl::string_view path, absl::string_view folder) {
  return absl::ConsumePrefix(&path, absl::StripSuffix(folder, "/")) &&
         (path.empty() || path.front() == '/');
}

std::unique_ptr<FileSystem> MakeWatchedFileSystem(FileSystem* base, SlowOperations* operations) {
  return std::make_unique<WatchedFileSystem>(base, operations);
}

}  // namespace longhaul
