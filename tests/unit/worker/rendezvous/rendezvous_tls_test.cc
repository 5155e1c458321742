// The rendezvous with the pool's TLS.
#include <filesystem>
#include <thread>

#include "tests/testing/certificates.h"
#include "tests/testing/temp_dir.h"
#include "tests/unit/worker/rendezvous/rendezvous_testing.h"

namespace longhaul {
namespace {

class RendezvousTlsTest : public testing::Test {
 protected:
  // Each identity has its own folder.
  std::shared_ptr<const Tls> Load(const TestAuthority& authority, const std::string& hosts) {
    const std::string folder = folder_.Join(absl::StrCat(folders_++));
    std::filesystem::create_directory(folder);
    auto tls =
        Tls::Load(WriteTlsFiles(folder, authority.certificate(), authority.Issue("pool", hosts)));
    EXPECT_TRUE(tls.ok()) << tls.status();
    return *std::move(tls);
  }
  static absl::StatusOr<Blobs> ExchangeAs(const RendezvousServer& server,
                                          std::shared_ptr<const Tls> tls, int rank,
                                          absl::Duration timeout, const std::string& name = "") {
    RendezvousClient client({.address = server.address(),
                             .tls = std::move(tls),
                             .tls_name = name,
                             .token = kToken,
                             .generation = 1,
                             .size = 2});
    return client.Exchange(rank, absl::StrCat("rank ", rank), timeout);
  }
  static void ExpectTheyMeet(const RendezvousServer& server, const std::shared_ptr<const Tls>& tls,
                             const std::string& name = "") {
    absl::StatusOr<Blobs> first;
    std::thread other([&] { first = ExchangeAs(server, tls, 0, kAmple, name); });
    const absl::StatusOr<Blobs> second = ExchangeAs(server, tls, 1, kAmple, name);
    other.join();
    ASSERT_TRUE(first.ok()) << first.status();
    ASSERT_TRUE(second.ok()) << second.status();
    EXPECT_EQ(*first, (Blobs{"rank 0", "rank 1"}));
    EXPECT_EQ(*second, *first);
  }

  const TestAuthority ours_{"ours"}, theirs_{"theirs"};
  const TempDir folder_;
  int folders_ = 0;
};

TEST_F(RendezvousTlsTest, RanksOfThePoolMeet) {
  const auto tls = Load(ours_, "IP:127.0.0.1");
  const auto server = StartServer(2, 1, tls);
  ExpectTheyMeet(*server, tls);
}

TEST_F(RendezvousTlsTest, RefusesOtherPoolsCertificatesEvenWithTheToken) {
  const auto server = StartServer(2, 1, Load(ours_, "IP:127.0.0.1"));
  const absl::Duration brief = absl::Milliseconds(300);
  EXPECT_TRUE(absl::IsUnavailable(ExchangeAs(*server, nullptr, 0, brief).status()));
  EXPECT_TRUE(
      absl::IsUnavailable(ExchangeAs(*server, Load(theirs_, "IP:127.0.0.1"), 0, brief).status()));
}

TEST_F(RendezvousTlsTest, RefusesAnotherPoolOfTheSameAuthorityEvenWithTheToken) {
  const auto own = Load(ours_, "DNS:pool-a"), other = Load(ours_, "DNS:pool-b,DNS:pool-a");
  const auto server = RendezvousServer::Start({.tls = own, .peer_name = "pool-a", .token = kToken});
  ASSERT_TRUE(server.ok()) << server.status();
  ASSERT_TRUE((*server)->StartGeneration(1, 2).ok());
  EXPECT_TRUE(absl::IsUnauthenticated(ExchangeAs(**server, other, 0, kAmple, "pool-a").status()));
  ExpectTheyMeet(**server, own, "pool-a");
}

TEST_F(RendezvousTlsTest, ARankKeepsItsTokenFromAServerOfAnotherHost) {
  const auto tls = Load(ours_, "DNS:elsewhere");
  const auto server = StartServer(2, 1, tls);
  EXPECT_TRUE(absl::IsUnavailable(ExchangeAs(*server, tls, 0, absl::Milliseconds(300)).status()));
}

TEST_F(RendezvousTlsTest, NodesWhoseAddressesNoCertificateNamesShareAName) {
  const auto tls = Load(ours_, "DNS:pool-a");
  const auto server = StartServer(2, 1, tls);
  const absl::Duration brief = absl::Milliseconds(300);
  EXPECT_TRUE(absl::IsUnavailable(ExchangeAs(*server, tls, 0, brief, "pool-b").status()));
  ExpectTheyMeet(*server, tls, "pool-a");
}

TEST_F(RendezvousTlsTest, ServesOtherMachinesWithoutAFlag) {
  const auto server = RendezvousServer::Start(
      {.address = "0.0.0.0:0", .tls = Load(ours_, "IP:127.0.0.1"), .token = kToken});
  EXPECT_TRUE(server.ok()) << server.status();
}

}  // namespace
}  // namespace longhaul
