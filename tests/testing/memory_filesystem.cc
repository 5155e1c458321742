#include "tests/testing/memory_filesystem.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/check.h"
#include "common/base/random.h"
#include "common/base/status_macros.h"

namespace longhaul {
namespace {

constexpr size_t kSectorBytes = 512;

// A change of a file that was not synced: bytes at an offset, or a new size (then `bytes` is
// empty).
struct Change {
  bool resize = false;
  // Or the new size.
  size_t offset = 0;
  std::string bytes;
};

void ApplyTo(std::string& content, const Change& change) {
  if (change.resize) {
    content.resize(change.offset, '\0');
    return;
  }
  content.resize(std::max(content.size(), change.offset + change.bytes.size()), '\0');
  content.replace(change.offset, change.bytes.size(), change.bytes);
}

// Applies the change only to some of its sectors, chosen at random.
void ApplyPartTo(std::string& content, const Change& change, Random& random) {
  for (size_t at = 0; at < change.bytes.size();) {
    const size_t end =
        std::min(change.bytes.size(), at + kSectorBytes - (change.offset + at) % kSectorBytes);
    if (random.Below(2) == 0) {
      ApplyTo(content, {false, change.offset + at, change.bytes.substr(at, end - at)});
    }
    at = end;
  }
}

}  // namespace

struct MemoryFileSystem::Node {
  virtual ~Node() = default;
  // What remains of the node after a crash.
  virtual std::shared_ptr<Node> AfterCrash(UnsyncedFate fate, Random& random) const = 0;
};

struct MemoryFileSystem::FileNode : Node {
  std::string content, durable;
  // The changes between `durable` and `content`, in order.
  std::vector<Change> unsynced;

  void Do(Change change) {
    ApplyTo(content, change);
    unsynced.push_back(std::move(change));
  }

  std::shared_ptr<Node> AfterCrash(UnsyncedFate fate, Random& random) const override {
    auto copy = std::make_shared<FileNode>();
    copy->content = durable;
    for (const Change& change : unsynced) {
      const uint64_t choice = fate == UnsyncedFate::kRandom    ? random.Below(3)
                              : fate == UnsyncedFate::kDropped ? 0
                                                               : 1;
      if (choice == 1) ApplyTo(copy->content, change);
      if (choice == 2) ApplyPartTo(copy->content, change, random);
    }
    copy->durable = copy->content;
    return copy;
  }
};

struct MemoryFileSystem::Folder : Node {
  using Entries = std::map<std::string, std::shared_ptr<Node>>;
  Entries entries, durable;
  // The entries after each change since the last sync.
  std::vector<Entries> unsynced;

  void Changed() { unsynced.push_back(entries); }

  std::shared_ptr<Node> AfterCrash(UnsyncedFate fate, Random& random) const override {
    const Entries* kept = fate == UnsyncedFate::kKept ? &entries : &durable;
    if (fate == UnsyncedFate::kRandom) {
      const uint64_t changes = random.Below(unsynced.size() + 1);
      if (changes > 0) kept = &unsynced[changes - 1];
    }
    auto copy = std::make_shared<Folder>();
    for (const auto& [name, node] : *kept) copy->entries[name] = node->AfterCrash(fate, random);
    copy->durable = copy->entries;
    return copy;
  }
};

class MemoryFileSystem::OpenFile : public File {
 public:
  OpenFile(std::shared_ptr<absl::Mutex> mutex, std::shared_ptr<FileNode> node)
      : mutex_(std::move(mutex)), node_(std::move(node)) {}

  absl::StatusOr<int64_t> ReadAt(int64_t offset, absl::Span<char> out) const override {
    absl::MutexLock lock(mutex_.get());
    const size_t size = node_->content.size(), begin = std::min<size_t>(offset, size);
    return node_->content.copy(out.data(), std::min(out.size(), size - begin), begin);
  }
  absl::Status WriteAt(int64_t offset, absl::string_view data) override {
    absl::MutexLock lock(mutex_.get());
    node_->Do({false, static_cast<size_t>(offset), std::string(data)});
    return absl::OkStatus();
  }
  absl::Status SyncData() override {
    absl::MutexLock lock(mutex_.get());
    for (const Change& change : node_->unsynced) ApplyTo(node_->durable, change);
    node_->unsynced.clear();
    return absl::OkStatus();
  }
  absl::Status Preallocate(int64_t size) override {
    absl::MutexLock lock(mutex_.get());
    if (node_->content.size() < static_cast<size_t>(size)) {
      node_->Do({true, static_cast<size_t>(size), ""});
    }
    return absl::OkStatus();
  }
  absl::Status Truncate(int64_t size) override {
    absl::MutexLock lock(mutex_.get());
    node_->Do({true, static_cast<size_t>(size), ""});
    return absl::OkStatus();
  }
  absl::StatusOr<int64_t> Size() const override {
    absl::MutexLock lock(mutex_.get());
    return node_->content.size();
  }
  void DropCache() override {}

 private:
  const std::shared_ptr<absl::Mutex> mutex_;
  const std::shared_ptr<FileNode> node_;
};

MemoryFileSystem::MemoryFileSystem()
    : shared_mutex_(std::make_shared<absl::Mutex>()),
      mutex_(*shared_mutex_),
      root_(std::make_shared<Folder>()) {}
MemoryFileSystem::~MemoryFileSystem() = default;

absl::StatusOr<MemoryFileSystem::Folder*> MemoryFileSystem::FindFolder(
    const std::string& path) const {
  Folder* folder = root_.get();
  for (const absl::string_view name : absl::StrSplit(path, '/', absl::SkipEmpty())) {
    if (name == ".") continue;
    const auto found = folder->entries.find(std::string(name));
    Folder* next =
        found == folder->entries.end() ? nullptr : dynamic_cast<Folder*>(found->second.get());
    if (next == nullptr) return absl::NotFoundError(absl::StrCat("no folder ", path));
    folder = next;
  }
  return folder;
}

absl::StatusOr<MemoryFileSystem::Location> MemoryFileSystem::Locate(const std::string& path) const {
  const size_t slash = path.find_last_of('/');
  Location location;
  location.name = slash == std::string::npos ? path : path.substr(slash + 1);
  if (location.name.empty()) return absl::InvalidArgumentError(absl::StrCat("no name in ", path));
  const std::string folder = slash == std::string::npos ? "" : path.substr(0, slash);
  LH_ASSIGN_OR_RETURN(location.folder, FindFolder(folder));
  return location;
}

absl::StatusOr<std::unique_ptr<File>> MemoryFileSystem::Open(const std::string& path) {
  absl::MutexLock lock(&mutex_);
  LH_ASSIGN_OR_RETURN(const Location location, Locate(path));
  const auto found = location.folder->entries.find(location.name);
  auto file = found == location.folder->entries.end()
                  ? nullptr
                  : std::dynamic_pointer_cast<FileNode>(found->second);
  if (file == nullptr) return absl::NotFoundError(absl::StrCat("no file ", path));
  return std::make_unique<OpenFile>(shared_mutex_, std::move(file));
}

absl::StatusOr<std::unique_ptr<File>> MemoryFileSystem::Create(const std::string& path) {
  absl::MutexLock lock(&mutex_);
  LH_ASSIGN_OR_RETURN(const Location location, Locate(path));
  std::shared_ptr<Node>& node = location.folder->entries[location.name];
  if (dynamic_cast<Folder*>(node.get()) != nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(path, " is a folder"));
  }
  auto file = std::dynamic_pointer_cast<FileNode>(node);
  if (file != nullptr) {
    // The same file is truncated, as with O_TRUNC. So a crash may leave the old bytes.
    file->Do({true, 0, ""});
  } else {
    node = file = std::make_shared<FileNode>();
    location.folder->Changed();
  }
  return std::make_unique<OpenFile>(shared_mutex_, std::move(file));
}

absl::Status MemoryFileSystem::CreateDir(const std::string& path) {
  absl::MutexLock lock(&mutex_);
  LH_ASSIGN_OR_RETURN(const Location location, Locate(path));
  std::shared_ptr<Node>& node = location.folder->entries[location.name];
  if (dynamic_cast<Folder*>(node.get()) != nullptr) return absl::OkStatus();
  if (node != nullptr) return absl::AlreadyExistsError(absl::StrCat(path, " is a file"));
  node = std::make_shared<Folder>();
  location.folder->Changed();
  return absl::OkStatus();
}

absl::Status MemoryFileSystem::Rename(const std::string& from, const std::string& to) {
  absl::MutexLock lock(&mutex_);
  LH_ASSIGN_OR_RETURN(const Location source, Locate(from));
  LH_ASSIGN_OR_RETURN(const Location target, Locate(to));
  LH_CHECK(source.folder == target.folder, "renames stay within one folder");
  auto& entries = source.folder->entries;
  const auto found = entries.find(source.name);
  if (found == entries.end()) return absl::NotFoundError(absl::StrCat("no file ", from));
  const auto replaced = entries.find(target.name);
  if (replaced != entries.end()) {
    const auto* folder = dynamic_cast<const Folder*>(replaced->second.get());
    if (folder != nullptr && !folder->entries.empty()) {
      return absl::FailedPreconditionError(absl::StrCat(to, " is not empty"));
    }
  }
  if (source.name == target.name) return absl::OkStatus();
  entries[target.name] = found->second;
  entries.erase(source.name);
  source.folder->Changed();
  return absl::OkStatus();
}

absl::Status MemoryFileSystem::Remove(const std::string& path) {
  absl::MutexLock lock(&mutex_);
  LH_ASSIGN_OR_RETURN(const Location location, Locate(path));
  const auto found = location.folder->entries.find(location.name);
  if (found == location.folder->entries.end()) {
    return absl::NotFoundError(absl::StrCat("no file ", path));
  }
  const auto* folder = dynamic_cast<const Folder*>(found->second.get());
  if (folder != nullptr && !folder->entries.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(path, " is not empty"));
  }
  location.folder->entries.erase(found);
  location.folder->Changed();
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> MemoryFileSystem::List(const std::string& path) {
  absl::MutexLock lock(&mutex_);
  LH_ASSIGN_OR_RETURN(const Folder* folder, FindFolder(path));
  std::vector<std::string> names;
  for (const auto& [name, node] : folder->entries) names.push_back(name);
  return names;
}

absl::Status MemoryFileSystem::SyncDir(const std::string& path) {
  absl::MutexLock lock(&mutex_);
  LH_ASSIGN_OR_RETURN(Folder * folder, FindFolder(path));
  folder->durable = folder->entries;
  folder->unsynced.clear();
  return absl::OkStatus();
}

absl::StatusOr<int64_t> MemoryFileSystem::FreeBytes(const std::string& path) {
  absl::MutexLock lock(&mutex_);
  LH_RETURN_IF_ERROR(FindFolder(path).status());
  return std::numeric_limits<int64_t>::max();
}

std::unique_ptr<MemoryFileSystem> MemoryFileSystem::CrashCopy(UnsyncedFate fate,
                                                              uint64_t seed) const {
  absl::MutexLock lock(&mutex_);
  Random random(seed);
  auto copy = std::make_unique<MemoryFileSystem>();
  copy->root_ = std::static_pointer_cast<Folder>(root_->AfterCrash(fate, random));
  return copy;
}

}  // namespace longhaul
