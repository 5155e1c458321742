#include "common/rpc/grpc_library.h"

#include "common/rpc/channel.h"
#include "grpc/grpc.h"
#include "gtest/gtest.h"

namespace longhaul {
namespace {

TEST(GrpcLibraryTest, OutlivesTheLastChannel) {
  KeepGrpcLibrary();
  MakeChannel({.address = "localhost:1"}).reset();
  EXPECT_EQ(grpc_is_initialized(), 1);
  // Other tests are as before.
  grpc_shutdown();
}

}  // namespace
}  // namespace longhaul
