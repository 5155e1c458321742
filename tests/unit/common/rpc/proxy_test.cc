#include "common/rpc/proxy.h"

#include <map>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace longhaul {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using Variables = std::map<std::string, std::string>;

absl::StatusOr<ProxyChoice> Choose(const std::string& address, const Variables& variables) {
  return ChooseProxy(address, [&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

std::string ProxyFor(const std::string& address, const Variables& variables) {
  const absl::StatusOr<ProxyChoice> choice = Choose(address, variables);
  EXPECT_TRUE(choice.ok()) << choice.status();
  return choice.ok() ? choice->address : "";
}

TEST(ProxyTest, TheFirstVariableThatIsSetNamesIt) {
  const auto variable = [](const Variables& variables) {
    return Choose("hub.example:7070", variables)->variable;
  };
  EXPECT_EQ(variable({}), "");
  for (const char* const name :
       {"grpc_proxy", "https_proxy", "HTTPS_PROXY", "http_proxy", "all_proxy", "ALL_PROXY"})
    EXPECT_EQ(variable({{name, "http://p:1"}}), name);
  // A web server sets it from a header of a request.
  EXPECT_EQ(variable({{"HTTP_PROXY", "http://p:1"}}), "");
  EXPECT_EQ(variable({{"https_proxy", ""}, {"HTTPS_PROXY", "http://p:1"}}), "HTTPS_PROXY");
  EXPECT_EQ(variable({{"https_proxy", "http://p:1"}, {"HTTPS_PROXY", "http://q:1"}}),
            "https_proxy");
}

TEST(ProxyTest, NoProxyIsUsedForThisMachine) {
  for (const char* const address : {"localhost:1", "127.0.0.9:1", "[::1]:1"})
    EXPECT_EQ(ProxyFor(address, {{"https_proxy", "http://p:1"}}), "") << address;
}

bool IsDirect(const std::string& address, const std::string& no_proxy) {
  return ProxyFor(address, {{"https_proxy", "http://p:1"}, {"no_proxy", no_proxy}}).empty();
}

TEST(ProxyTest, NoProxyHasNamesAddressesAndNetworks) {
  EXPECT_TRUE(IsDirect("192.0.2.1:7070", "192.0.2.1"));
  EXPECT_TRUE(IsDirect("192.0.2.1:7070", "10.0.0.0/8, 192.0.2.0/24,.svc"));
  EXPECT_TRUE(IsDirect("192.0.2.1:7070", "0.0.0.0/0"));
  EXPECT_TRUE(IsDirect("192.0.2.129:7070", "192.0.2.128/25"));
  EXPECT_FALSE(IsDirect("192.0.2.1:7070", "192.0.2.128/25"));
  EXPECT_FALSE(IsDirect("192.0.2.1:7070", "192.0.2.11"));
  EXPECT_FALSE(IsDirect("192.0.2.11:7070", "2.11"));
  EXPECT_FALSE(IsDirect("192.0.2.1:7070", "192.0.2.0/33"));
  EXPECT_FALSE(IsDirect("192.0.2.1:7070", "192.0.2.0/x"));
  EXPECT_TRUE(IsDirect("[fd00::5]:7070", "fd00::/8"));
  EXPECT_TRUE(IsDirect("[fd00::5]:7070", "fd00:0::5"));
  EXPECT_TRUE(IsDirect("[fd00::5]:7070", "[fd00::5]:7070"));
  EXPECT_FALSE(IsDirect("[fd00::5]:7070", "[fd00::5]:7071"));
  EXPECT_FALSE(IsDirect("[fd00::5]:7070", "0.0.0.0/0"));
  EXPECT_TRUE(IsDirect("hub.example:7070", "*"));
  EXPECT_TRUE(IsDirect("hub.example:7070", "a, *"));
  EXPECT_TRUE(IsDirect("hub.Example.:7070", "EXAMPLE"));
  EXPECT_TRUE(IsDirect("hub.example:7070", ".example"));
  EXPECT_TRUE(IsDirect("hub.example:7070", "*.example"));
  EXPECT_TRUE(IsDirect("hub.example:7070", "a b hub.example"));
  EXPECT_TRUE(IsDirect("hub.example:7070", "hub.example:7070"));
  EXPECT_FALSE(IsDirect("hub.example:7070", "hub.example:443"));
  EXPECT_FALSE(IsDirect("hub.example:7070", "b.example"));
  EXPECT_FALSE(IsDirect("hub.example:7070", "10.0.0.0/8"));
  EXPECT_FALSE(IsDirect("hub.example:7070", "."));
  EXPECT_TRUE(ProxyFor("a.b:1", {{"https_proxy", "http://p:1"}, {"NO_PROXY", "b"}}).empty());
}

TEST(ProxyTest, AProxyIsReadAsCurlReadsIt) {
  const auto read = [](const std::string& url) {
    const ProxyChoice choice = *Choose("hub.example:7070", {{"https_proxy", url}});
    return choice.address + " " + choice.credentials;
  };
  EXPECT_EQ(read("http://p:3128"), "p:3128 ");
  EXPECT_EQ(read("HTTP://p:3128/"), "p:3128 ");
  EXPECT_EQ(read("p:3128"), "p:3128 ");
  EXPECT_EQ(read("http://[fd00::1]:3128"), "[fd00::1]:3128 ");
  EXPECT_EQ(read("http://a:s%40c%2Fr@p:3128"), "p:3128 a:s@c/r");
  EXPECT_EQ(read("http://a:s@c/r#t@p:3128/x"), "p:3128 a:s@c/r#t");
}

TEST(ProxyTest, WhatCannotBeUsedIsRefusedWithoutItsPassword) {
  const auto refused = [](const std::string& url) {
    return std::string(Choose("hub.example:7070", {{"https_proxy", url}}).status().message());
  };
  EXPECT_THAT(refused("https://p:1"), HasSubstr("https_proxy: a proxy with https:// cannot"));
  EXPECT_THAT(refused("socks5://p:1"), HasSubstr("https_proxy: a proxy with socks5:// cannot"));
  for (const char* const url : {"http://a:s3cret@p", "http://a:s3cret@p:0", "a:s3cret@:1",
                                "socks5://a:s3cret@p:1", "a:s3cret@x://p:1", "http://s3cret"})
    EXPECT_THAT(refused(url), AllOf(HasSubstr("https_proxy"), Not(HasSubstr("s3cret")))) << url;
}

}  // namespace
}  // namespace longhaul
