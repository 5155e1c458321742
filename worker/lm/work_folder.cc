#include "worker/lm/work_folder.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/base/stop_signals.h"

namespace longhaul {
namespace {

struct ExistingFolder {
  absl::Mutex mutex;
  std::string path ABSL_GUARDED_BY(mutex);  // Empty: none.
};
// Never destroyed, since the thread of the signals uses it until the process ends.
ExistingFolder& existing = *new ExistingFolder;

void RemoveFolder(const std::string& path) {
  std::error_code ignored;
  if (!path.empty()) std::filesystem::remove_all(path, ignored);
}

bool IsIgnored(int signal) {
  struct sigaction action {};
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

void EndBy(int signal) {
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, signal);
  ::signal(signal, SIG_DFL);
  pthread_sigmask(SIG_UNBLOCK, &only, nullptr);
  raise(signal);
  _exit(128 + signal);
}

}  // namespace

void EndOnStopSignals() {
  sigset_t signals = BlockStopSignals();
  sigaddset(&signals, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::thread([signals] {
    int signal = 0;
    while (sigwait(&signals, &signal) != 0 || IsIgnored(signal)) continue;
    // Held to the end, so that nobody makes or removes a folder meanwhile.
    absl::MutexLock lock(&existing.mutex);
    RemoveFolder(existing.path);
    EndBy(signal);
  }).detach();
}

absl::StatusOr<WorkFolder> WorkFolder::Make() {
  std::error_code error;
  std::string path = std::filesystem::temp_directory_path(error) / "longhaul-eval-XXXXXX";
  absl::MutexLock lock(&existing.mutex);
  if (error || mkdtemp(path.data()) == nullptr) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot make a folder for tokens in ", path,
                                                   " (TMPDIR names another place)"));
  }
  existing.path = path;
  return WorkFolder(std::move(path));
}

WorkFolder::WorkFolder(WorkFolder&& other) noexcept : path_(std::exchange(other.path_, "")) {}

WorkFolder::~WorkFolder() {
  if (path_.empty()) return;
  absl::MutexLock lock(&existing.mutex);
  RemoveFolder(path_);
  existing.path.clear();
}

}  // namespace longhaul
