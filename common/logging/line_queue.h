// Lines for a sink that may stand still: a pipe that nobody reads, a terminal, a disk that hangs. A
// thread of the queue writes them, so that whoever has a line does not wait for the sink. Lines
// that do not fit are dropped and counted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace longhaul {

// Thread-safe. Lines are written in the order in which they were added.
class LineQueue {
 public:
  // Writes a line. Runs on the queue's thread, one call at a time, and may block without end, so it
  // owns what it uses. If the system refuses the thread, callers that wait for lines run it.
  // False: the line was not written.
  using Write = std::function<bool(absl::string_view line)>;
  // Makes the line that is written, once the sink takes lines again, in place of so many.
  using Notice = std::function<std::string(int64_t dropped)>;

  // At most `bytes_max` bytes of lines wait, and of important ones a sixteenth more; or one line.
  LineQueue(Write write, size_t bytes_max);
  // Waits for the lines that wait, but at most a second. If the sink stands still for longer, its
  // thread is left alone.
  ~LineQueue();
  LineQueue(const LineQueue&) = delete;
  LineQueue& operator=(const LineQueue&) = delete;

  // Null: the sink is not told.
  void SetNotice(Notice notice);

  // Never blocks.
  void Add(std::string line, bool important = false);
  // As Add. Then waits until the line was written or could not be: at most `patience`, and not at
  // all if a write has lasted for so long already.
  void AddAndWait(std::string line, absl::Duration patience);
  // If the sink refused the last line: tries to write the notice again, so that failing() ends
  // without a further line. Never blocks.
  void Retry();
  // Waits until no line waits any more. False: `patience` was not enough.
  bool Flush(absl::Duration patience);

  // How many lines were not written.
  int64_t dropped() const;
  // Whether the last line that the sink got was not written.
  bool failing() const;
  // How long the write that runs now has lasted. Zero if none runs.
  absl::Duration stalled_for() const;

 private:
  struct State;
  // The thread shares it, since it may outlive the queue.
  const std::shared_ptr<State> state_;
};

}  // namespace longhaul
