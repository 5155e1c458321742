#include "coordinator/cli/interrupt_note.h"

#include <signal.h>
#include <unistd.h>

#include <cstring>
#include <utility>

namespace longhaul::cli {
namespace {

// The text of the note that exists. It is set before the handler.
const char* note_text = nullptr;

void OnInterrupt(int number) {
  (void)!write(STDERR_FILENO, note_text, strlen(note_text));
  // The handler is gone (SA_RESETHAND): this one ends the process.
  raise(number);
}

}  // namespace

InterruptNote::InterruptNote(std::string note) : note_(std::move(note)) {
  struct sigaction before {};
  if (sigaction(SIGINT, nullptr, &before) != 0 || before.sa_handler != SIG_DFL) return;
  note_text = note_.c_str();
  struct sigaction noted {};
  noted.sa_handler = OnInterrupt;
  noted.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &noted, nullptr);
}

InterruptNote::~InterruptNote() {
  struct sigaction now {};
  if (sigaction(SIGINT, nullptr, &now) == 0 && now.sa_handler == OnInterrupt)
    signal(SIGINT, SIG_DFL);
}

}  // namespace longhaul::cli
