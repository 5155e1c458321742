#include "common/rpc/tls_files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/certificates.h"
#include "tests/testing/temp_dir.h"

namespace longhaul {
namespace {

using ::testing::HasSubstr;

class TlsFilesTest : public ::testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

  const TestAuthority authority_{"an authority"};
  const TempDir folder_;
  TlsFiles files_ = WriteTlsFiles(folder_.path(), authority_.certificate(),
                                  authority_.Issue("a", "DNS:localhost"));
};

TEST_F(TlsFilesTest, AcceptsFilesThatBelongTogether) {
  EXPECT_EQ(ReadTlsFiles(files_).status(), absl::OkStatus());
  EXPECT_FALSE(files_.empty());
  EXPECT_TRUE(TlsFiles().empty());
}

TEST_F(TlsFilesTest, AcceptsSeveralAuthorities) {
  Write(files_.ca, authority_.certificate() + TestAuthority("another").certificate());
  EXPECT_EQ(ReadTlsFiles(files_).status(), absl::OkStatus());
}

TEST_F(TlsFilesTest, ReturnsTheNameInTheCertificate) {
  EXPECT_EQ(*NameInCertificate(files_), "localhost");
  files_ = WriteTlsFiles(folder_.path(), authority_.certificate(),
                         authority_.Issue("a", "IP:127.0.0.1,DNS:pool-a,DNS:pool-b"));
  EXPECT_EQ(*NameInCertificate(files_), "pool-a");
  files_ = WriteTlsFiles(folder_.path(), authority_.certificate(),
                         authority_.Issue("a", "IP:127.0.0.1"));
  const absl::Status none = NameInCertificate(files_).status();
  EXPECT_TRUE(absl::IsInvalidArgument(none));
  EXPECT_THAT(none.message(), HasSubstr("no DNS name"));
}

TEST_F(TlsFilesTest, NamesThePathThatIsNotGiven) {
  files_.key.clear();
  const absl::Status status = ReadTlsFiles(files_).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(status.message(), HasSubstr("--tls-key"));
}

TEST_F(TlsFilesTest, NamesTheFileThatIsNotThere) {
  std::filesystem::remove(files_.certificate);
  const absl::Status status = ReadTlsFiles(files_).status();
  EXPECT_TRUE(absl::IsNotFound(status));
  EXPECT_THAT(status.message(), HasSubstr(files_.certificate));
}

TEST_F(TlsFilesTest, RefusesFilesThatAreNotPem) {
  for (const std::string& path : {files_.ca, files_.certificate, files_.key}) {
    TlsFiles files = WriteTlsFiles(folder_.path(), authority_.certificate(),
                                   authority_.Issue("a", "DNS:localhost"));
    Write(path, "no certificate, no key");
    const absl::Status status = ReadTlsFiles(files).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(status.message(), HasSubstr(path));
  }
}

TEST_F(TlsFilesTest, RefusesAKeyThatOthersMayReadAndNamesTheRemedy) {
  for (const mode_t mode : {0644, 0640, 0604, 0660}) {
    ASSERT_EQ(chmod(files_.key.c_str(), mode), 0);
    const absl::Status status = ReadTlsFiles(files_).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << mode << status;
    EXPECT_THAT(
        status.message(),
        HasSubstr("--tls-key " + files_.key +
                  " holds a secret that other users can read or change: chmod 600 " + files_.key));
  }
  ASSERT_EQ(chmod(files_.key.c_str(), 0400), 0);
  EXPECT_EQ(ReadTlsFiles(files_).status(), absl::OkStatus());
  // Everybody may read certificates.
  ASSERT_EQ(chmod(files_.ca.c_str(), 0644), 0);
  ASSERT_EQ(chmod(files_.certificate.c_str(), 0644), 0);
  EXPECT_EQ(ReadTlsFiles(files_).status(), absl::OkStatus());
  // As Kubernetes mounts a secret. Only root can make such a file here.
  ASSERT_EQ(chmod(files_.key.c_str(), 0440), 0);
  if (geteuid() == 0 && chown(files_.key.c_str(), 1, getegid()) == 0) {
    EXPECT_EQ(ReadTlsFiles(files_).status(), absl::OkStatus());
  }
}

TEST_F(TlsFilesTest, RefusesADamagedSecondCertificate) {
  std::string second = TestAuthority("another").certificate();
  second.replace(second.size() / 2, 4, "####");
  Write(files_.ca, authority_.certificate() + second);
  const absl::Status status = ReadTlsFiles(files_).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(status.message(), HasSubstr("certificate 2"));
}

TEST_F(TlsFilesTest, RefusesTheKeyOfAnotherCertificate) {
  Write(files_.key, authority_.Issue("b", "DNS:localhost").key);
  const absl::Status status = ReadTlsFiles(files_).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(status.message(), HasSubstr("is not the key of"));
  EXPECT_THAT(status.message(), HasSubstr("give the key that belongs to this certificate"));
}

}  // namespace
}  // namespace longhaul
