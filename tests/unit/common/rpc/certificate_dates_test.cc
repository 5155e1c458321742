#include "common/rpc/certificate_dates.h"

#include <fstream>

#include "absl/time/clock.h"
#include "common/rpc/tls.h"
#include "gtest/gtest.h"
#include "tests/testing/certificates.h"
#include "tests/testing/temp_dir.h"

namespace longhaul {
namespace {

TEST(CertificateDatesTest, ReadsACertificateAndRefusesOtherFiles) {
  const TempDir folder;
  const TestAuthority authority("authority");
  const TlsFiles files = WriteTlsFiles(folder.path(), authority.certificate(),
                                       authority.Issue("east", "DNS:localhost"));
  const absl::StatusOr<CertificateDates> dates = DatesOfCertificate(files.certificate);
  ASSERT_TRUE(dates.ok()) << dates.status();
  EXPECT_EQ(dates->subject, "east");
  EXPECT_LE(dates->from, absl::Now());
  EXPECT_GT(dates->until, absl::Now());
  EXPECT_EQ(CertificateExpirySeconds(*Tls::Load(files).value()), absl::ToUnixSeconds(dates->until));
  EXPECT_EQ(CertificateExpirySeconds(*Tls::LoadAuthorities(files.ca).value()), std::nullopt);
  EXPECT_TRUE(absl::IsInvalidArgument(DatesOfCertificate(files.key).status()));
  EXPECT_TRUE(absl::IsNotFound(DatesOfCertificate(folder.Join("none")).status()));
  // OpenSSL would ask for a password, if it were let.
  std::ofstream(folder.Join("locked")) << "-----BEGIN CERTIFICATE-----\nProc-Type: 4,ENCRYPTED\n"
                                          "DEK-Info: AES-128-CBC,00112233445566778899AABBCCDDEEFF\n"
                                          "\nAAAAAAAAAAAAAAAAAAAAAA==\n"
                                          "-----END CERTIFICATE-----\n";
  EXPECT_TRUE(absl::IsInvalidArgument(DatesOfCertificate(folder.Join("locked")).status()));
}

}  // namespace
}  // namespace longhaul
