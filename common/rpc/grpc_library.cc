#include "common/rpc/grpc_library.h"

#include "grpc/grpc.h"

namespace longhaul {

void KeepGrpcLibrary() { grpc_init(); }

}  // namespace longhaul
