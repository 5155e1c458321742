// Makes the communicator of a rank process from its configuration.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/thread_team.h"
#include "worker/collective/communicator.h"
#include "worker/collective/rendezvous.h"

namespace longhaul {

enum class CommunicatorKind { kThread, kGloo, kNccl };

struct CommunicatorOptions {
  CommunicatorKind kind = CommunicatorKind::kGloo;
  int rank = 0;
  int size = 1;
  // gloo, nccl. Used only during the call.
  Rendezvous* rendezvous = nullptr;
  // gloo, nccl: for connecting.
  absl::Duration timeout;
  // gloo: numeric address that the peers can reach.
  std::string hostname = "127.0.0.1";
  // nccl: CUDA device ordinal.
  int device = 0;
  // nccl: where the CUDA module is. Empty: near the program.
  std::string module_folder;
  // gloo: see GlooCommunicatorOptions.
  ThreadTeam* team = nullptr;
};

// INVALID_ARGUMENT: the options contradict each other; also kThread with more than one rank, since
// those communicators are made together (MakeThreadCommunicators). FAILED_PRECONDITION: kNccl
// without a device, driver or module. Others: those of MakeGlooCommunicator and
// MakeNcclCommunicator.
absl::StatusOr<std::unique_ptr<Communicator>> MakeCommunicator(const CommunicatorOptions& options);

// "thread", "gloo" or "nccl". INVALID_ARGUMENT: another name.
absl::StatusOr<CommunicatorKind> ParseCommunicatorKind(absl::string_view name);

}  // namespace longhaul
