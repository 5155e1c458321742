#include "common/base/listen_fault.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace longhaul {
namespace {

std::string Fault(const HostPort& address) { return std::string(ListenFault(address).message()); }

TEST(ListenFaultTest, SaysWhyAndWhatToDo) {
  const int taken = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(bind(taken, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(listen(taken, 1), 0);
  socklen_t size = sizeof(address);
  ASSERT_EQ(getsockname(taken, reinterpret_cast<sockaddr*>(&address), &size), 0);
  const int port = ntohs(address.sin_port);
  EXPECT_EQ(Fault({"127.0.0.1", port}),
            absl::StrCat("cannot listen on 127.0.0.1:", port,
                         ": Address already in use (another program listens on that port; stop it "
                         "or choose another port)"));
  close(taken);
  EXPECT_EQ(Fault({"127.0.0.1", port}), absl::StrCat("cannot listen on 127.0.0.1:", port,
                                                     ": the address is free now; try again"));
  EXPECT_EQ(Fault({"192.0.2.1", 7070}),
            "cannot listen on 192.0.2.1:7070: Cannot assign requested address (this machine does "
            "not have that address; choose one of its own, or 0.0.0.0 for all)");
}

TEST(ListenFaultTest, SaysThatAHostIsUnknown) {
  EXPECT_TRUE(absl::IsUnavailable(ListenFault({"no-such-host.invalid", 1})));
  EXPECT_NE(Fault({"no-such-host.invalid", 1}).find("name an address of this machine"),
            std::string::npos);
}

}  // namespace
}  // namespace longhaul
