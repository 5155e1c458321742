// The signals that ask a program to stop: SIGTERM and SIGINT.
#pragma once

#include <signal.h>

namespace longhaul {

// Blocks them, so that one thread can wait for them (sigwait). Call it before any other thread
// exists, since threads inherit it. Returns them.
inline sigset_t BlockStopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

}  // namespace longhaul
