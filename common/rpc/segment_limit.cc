#include "common/rpc/segment_limit.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "grpc/support/sync.h"

// ChannelArguments::SetSocketMutator takes these types, which gRPC's public headers only declare.
// Those of gRPC 1.51 (src/core/lib/iomgr/socket_mutator.h); a test connects with it.
struct grpc_mutate_socket_info;
struct grpc_socket_mutator_vtable {
  bool (*mutate_fd)(int fd, grpc_socket_mutator* mutator);
  int (*compare)(grpc_socket_mutator* a, grpc_socket_mutator* b);
  void (*destroy)(grpc_socket_mutator* mutator);
  // Null: mutate_fd is called, for sockets of clients before they connect.
  bool (*mutate_fd_2)(const grpc_mutate_socket_info* info, grpc_socket_mutator* mutator);
};
struct grpc_socket_mutator {
  const grpc_socket_mutator_vtable* vtable;
  gpr_refcount refcount;
};

namespace longhaul {
namespace {

// Never an error: a connection with large segments is better than none.
bool Limit(int fd, grpc_socket_mutator*) {
  const int bytes = kSmallSegmentBytes;
  (void)setsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &bytes, sizeof bytes);
  return true;
}

constexpr grpc_socket_mutator_vtable kLimiting = {
    .mutate_fd = Limit,
    // All are equal.
    .compare = [](grpc_socket_mutator*, grpc_socket_mutator*) { return 0; },
    .destroy = [](grpc_socket_mutator* mutator) { delete mutator; },
    .mutate_fd_2 = nullptr};

}  // namespace

void LimitSegments(grpc::ChannelArguments& arguments) {
  auto* const mutator = new grpc_socket_mutator{.vtable = &kLimiting, .refcount = {}};
  gpr_ref_init(&mutator->refcount, 1);
  // The arguments own it.
  arguments.SetSocketMutator(mutator);
}

}  // namespace longhaul
