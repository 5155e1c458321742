#include "coordinator/cli/terminal.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "common/base/clock.h"

namespace longhaul::cli {
namespace {

constexpr char kCtrlC = 3;
constexpr int kEndings[] = {SIGHUP, SIGINT, SIGTERM};

// The signal that asked this process to end while a terminal's settings were changed. 0: none.
volatile sig_atomic_t ending = 0;

class ProcessTerminal final : public Terminal {
 public:
  explicit ProcessTerminal(int output) : output_(output) {}
  ~ProcessTerminal() override {
    if (raw_) tcsetattr(keys_, TCSANOW, &before_);
    if (keys_ >= 0) close(keys_);
    // Now it ends as it was asked to.
    if (raw_ && ending != 0) {
      signal(ending, SIG_DFL);
      raise(ending);
    }
  }

  int columns() const override { return Size().ws_col > 0 ? Size().ws_col : 80; }
  int rows() const override { return Size().ws_row > 0 ? Size().ws_row : 24; }

  bool QuitWithin(absl::Duration wait) override {
    ReadKeys();
    const absl::Time until = SteadyTime() + wait;
    for (absl::Time now = SteadyTime(); now < until; now = SteadyTime()) {
      pollfd key{.fd = keys_, .events = POLLIN, .revents = 0};  // A negative descriptor is skipped.
      const int ready = poll(&key, 1, static_cast<int>(absl::ToInt64Milliseconds(until - now)) + 1);
      if (ending != 0 || (ready < 0 && errno != EINTR)) return true;
      if (ready <= 0) continue;
      char pressed = 0;
      if (read(keys_, &pressed, 1) != 1) return true;  // The terminal is gone.
      if (pressed == 'q' || pressed == 'Q' || pressed == kCtrlC) return true;
    }
    return ending != 0;
  }

 private:
  winsize Size() const {
    winsize size{};
    (void)ioctl(output_, TIOCGWINSZ, &size);
    return size;
  }

  // Ctrl-C comes as a key too, and signals end the wait: who draws must be able to tidy up.
  void ReadKeys() {
    if (keys_ >= 0) return;
    keys_ = open("/dev/tty", O_RDONLY | O_CLOEXEC);
    if (keys_ < 0 || tcgetattr(keys_, &before_) != 0) return;
    termios keys = before_;
    keys.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | ISIG);
    for (const int number : kEndings) signal(number, [](int given) { ending = given; });
    raw_ = tcsetattr(keys_, TCSANOW, &keys) == 0;
  }

  const int output_;
  int keys_ = -1;
  bool raw_ = false;
  termios before_{};
};

}  // namespace

std::unique_ptr<Terminal> OpenTerminal() {
  const char* kind = std::getenv("TERM");
  if (kind == nullptr || *kind == '\0' || std::strcmp(kind, "dumb") == 0) return nullptr;
  for (const int output : {STDERR_FILENO, STDOUT_FILENO}) {
    if (isatty(output) == 1) return std::make_unique<ProcessTerminal>(output);
  }
  return nullptr;
}

}  // namespace longhaul::cli
