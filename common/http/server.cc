#include "common/http/server.h"

#include <gnutls/gnutls.h>
#include <microhttpd.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/mutex.h"
#include "common/base/host_port.h"
#include "common/base/listen_fault.h"
#include "common/base/resolved_address.h"
#include "common/base/token_size.h"

namespace longhaul {
namespace {

constexpr size_t kPagesMax = 64;
constexpr int kThreads = 4;
// A request is one short line and its headers, an answer's headers are as short. libmicrohttpd
// needs some memory for its lists of them.
constexpr size_t kConnectionBytes = 4 * (4096 + kTokenBytesMax);
constexpr unsigned kRequestSeconds = 1, kAnswerSeconds = 10;
constexpr char kContentPolicy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

// Whether the name in a Host header can mean this machine alone. Null: there is no header.
bool NamesThisMachine(const char* host) {
  // Browsers always send it.
  if (host == nullptr) return true;
  const absl::string_view text = host;
  const bool has_port = absl::StrContains(text.substr(text.rfind(']') + 1), ':');
  const absl::StatusOr<HostPort> parsed = ParseHostPort(absl::StrCat(text, has_port ? "" : ":80"));
  if (!parsed.ok()) return false;
  const bool number = absl::StrContains(parsed->host, ':') ||
                      parsed->host.find_first_not_of("0123456789.") == std::string::npos;
  return number || absl::EqualsIgnoreCase(parsed->host, "localhost");
}

bool HasIpv6() {
  const int probe = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (probe >= 0) close(probe);
  return probe >= 0;
}

bool MeansAllAddresses(const std::string& host) { return host == "0.0.0.0" || host == "::"; }

// As gRPC reads it: all addresses are those of both families, where the system has both.
std::string HostToBind(const std::string& host) {
  if (!MeansAllAddresses(host)) return host;
  return HasIpv6() ? "::" : "0.0.0.0";
}

MHD_Result Send(MHD_Connection* connection, const Page& page) {
  MHD_set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT, kAnswerSeconds);
  const std::unique_ptr<MHD_Response, decltype(&MHD_destroy_response)> response(
      MHD_create_response_from_buffer(page.body.size(), const_cast<char*>(page.body.data()),
                                      MHD_RESPMEM_MUST_COPY),
      MHD_destroy_response);
  if (response == nullptr) return MHD_NO;
  const auto add = [&](const char* header, const char* value) {
    return MHD_add_response_header(response.get(), header, value) == MHD_YES;
  };
  const bool added =
      add(MHD_HTTP_HEADER_CONTENT_TYPE, page.type.c_str()) &&
      add(MHD_HTTP_HEADER_CACHE_CONTROL, "no-store") && add("X-Content-Type-Options", "nosniff") &&
      add("Content-Security-Policy", kContentPolicy) && add(MHD_HTTP_HEADER_CONNECTION, "close") &&
      (page.code != MHD_HTTP_UNAUTHORIZED || add(MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer")) &&
      (page.code != MHD_HTTP_METHOD_NOT_ALLOWED || add(MHD_HTTP_HEADER_ALLOW, "GET, HEAD"));
  return added ? MHD_queue_response(connection, page.code, response.get()) : MHD_NO;
}

const char* HeaderOf(MHD_Connection* connection, const char* name) {
  return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

PageRequest RequestOf(MHD_Connection* connection) {
  PageRequest request;
  const auto add = [](void* to, MHD_ValueKind, const char* key, const char* value) {
    static_cast<PageRequest*>(to)->parameters.emplace(key, value == nullptr ? "" : value);
    return MHD_YES;
  };
  MHD_get_connection_values(connection, MHD_GET_ARGUMENT_KIND, add, &request);
  return request;
}

MHD_FLAG FamilyOf(const addrinfo& address, const std::string& host) {
  if (address.ai_family != AF_INET6) return MHD_NO_FLAG;
  return MeansAllAddresses(host) ? MHD_USE_DUAL_STACK : MHD_USE_IPv6;
}

}  // namespace

class HttpServer::Impl {
 public:
  Impl(Pages pages, bool own_machine_only, size_t connections_max)
      : pages_(std::move(pages)),
        own_machine_only_(own_machine_only),
        connections_max_(connections_max) {
    unknown_ = "there is no such page; the pages are";
    for (const auto& [path, _] : pages_.all()) absl::StrAppend(&unknown_, " ", path);
    unknown_ += "\n";
  }
  ~Impl() {
    {
      absl::MutexLock lock(&mutex_);
      stopping_ = true;
    }
    for (std::thread& thread : threads_) thread.join();
    // Whoever still waits is told so: libmicrohttpd cannot stop with suspended connections.
    {
      absl::MutexLock lock(&mutex_);
      for (Waiting* const waiting : waiting_) MHD_resume_connection(waiting->connection);
    }
    if (daemon_ != nullptr) MHD_stop_daemon(daemon_);
  }

  // False: it cannot listen there.
  bool Start(const Options& options) {
    const absl::StatusOr<ResolvedAddress> found =
        Resolve({HostToBind(options.address), options.port}, {.flags = AI_NUMERICHOST});
    if (!found.ok()) return false;
    const addrinfo& address = **found;
    std::vector<MHD_OptionItem> tls;
    if (options.identity) {
      identity_ = std::make_unique<LoadedIdentity>(options.identity);
      tls.push_back(
          {MHD_OPTION_HTTPS_CERT_CALLBACK, 0, reinterpret_cast<void*>(&Impl::OnHandshake)});
      tls.push_back({MHD_OPTION_HTTPS_PRIORITIES, 0,
                     const_cast<char*>("NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2")});
    }
    tls.push_back({MHD_OPTION_END, 0, nullptr});
    daemon_ = MHD_start_daemon(
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME |
            FamilyOf(address, options.address) | (options.identity ? MHD_USE_TLS : MHD_NO_FLAG),
        0, nullptr, nullptr, &Impl::OnRequest, this, MHD_OPTION_SOCK_ADDR, address.ai_addr,
        // More than are kept: one that OnConnection closes still counts for a moment.
        MHD_OPTION_CONNECTION_LIMIT, static_cast<unsigned>(2 * connections_max_),
        MHD_OPTION_CONNECTION_TIMEOUT, kRequestSeconds, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        kConnectionBytes, MHD_OPTION_NOTIFY_CONNECTION, &Impl::OnConnection, this,
        MHD_OPTION_NOTIFY_COMPLETED, &Impl::OnCompleted, nullptr, MHD_OPTION_ARRAY, tls.data(),
        MHD_OPTION_END);
    if (daemon_ == nullptr) return false;
    for (int i = 0; i < kThreads; ++i) threads_.emplace_back([this] { MakePages(); });
    return true;
  }

  int port() const { return MHD_get_daemon_info(daemon_, MHD_DAEMON_INFO_BIND_PORT)->port; }

 private:
  // A request whose page is made by another thread. libmicrohttpd has it, until it is completed.
  struct Waiting {
    MHD_Connection* connection = nullptr;
    const Pages::Entry* entry = nullptr;
    std::string authorization;
    PageRequest request;
    Page page{.code = MHD_HTTP_SERVICE_UNAVAILABLE, .body = "the server is stopping\n"};
  };

  // Called when a connection begins and when it ends. `number`: of the connection.
  static void OnConnection(void* self, MHD_Connection* connection, void** number,
                           MHD_ConnectionNotificationCode code) {
    Impl& impl = *static_cast<Impl*>(self);
    of_this_thread_ = &impl;
    std::map<intptr_t, int>& open = impl.open_;
    if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
      open.erase(reinterpret_cast<intptr_t>(*number));
      return;
    }
    open.emplace(
        ++impl.newest_,
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd);
    *number = reinterpret_cast<void*>(impl.newest_);
    if (open.size() <= impl.connections_max_) return;
    // libmicrohttpd finds that it has ended.
    shutdown(open.begin()->second, SHUT_RDWR);
    open.erase(open.begin());
  }
  // Called when a client says hello. libmicrohttpd gives it no argument of ours.
  static int OnHandshake(gnutls_session_t, const gnutls_datum_t*, int, const gnutls_pk_algorithm_t*,
                         int, gnutls_pcert_st** certificates, unsigned* count,
                         gnutls_privkey_t* key) {
    return of_this_thread_->identity_->Retrieve(certificates, count, key);
  }
  // Called when a request's headers are there, and again when its page has been made.
  static MHD_Result OnRequest(void* self, MHD_Connection* connection, const char* path,
                              const char* method, const char*, const char*, size_t*, void** state) {
    if (*state != nullptr) return Send(connection, static_cast<Waiting*>(*state)->page);
    return static_cast<Impl*>(self)->Take(connection, path, method, state);
  }
  static void OnCompleted(void*, MHD_Connection*, void** state, MHD_RequestTerminationCode) {
    delete static_cast<Waiting*>(*state);
  }

  MHD_Result Take(MHD_Connection* connection, const std::string& path, absl::string_view method,
                  void** state) {
    if (method != MHD_HTTP_METHOD_GET && method != MHD_HTTP_METHOD_HEAD) {
      return Send(connection, {.code = MHD_HTTP_METHOD_NOT_ALLOWED,
                               .body = "only GET and HEAD are answered\n"});
    }
    if (own_machine_only_ && !NamesThisMachine(HeaderOf(connection, MHD_HTTP_HEADER_HOST))) {
      return Send(connection, {.code = MHD_HTTP_FORBIDDEN,
                               .body = "this server answers only requests for localhost or a "
                                       "numeric address: --tokens lets it answer others\n"});
    }
    const auto found = pages_.all().find(path);
    if (found == pages_.all().end())
      return Send(connection, {.code = MHD_HTTP_NOT_FOUND, .body = unknown_});
    if (found->second.probe) return Send(connection, found->second(RequestOf(connection)));
    const char* const authorization = HeaderOf(connection, MHD_HTTP_HEADER_AUTHORIZATION);
    auto waiting = std::make_unique<Waiting>(
        Waiting{.connection = connection,
                .entry = &found->second,
                .authorization = authorization == nullptr ? "" : authorization,
                .request = RequestOf(connection)});
    absl::MutexLock lock(&mutex_);
    if (stopping_) return Send(connection, waiting->page);
    if (waiting_.size() >= kPagesMax) {
      return Send(connection, {.code = MHD_HTTP_SERVICE_UNAVAILABLE,
                               .body = "too many pages are being rendered\n"});
    }
    MHD_suspend_connection(connection);
    waiting_.push_back(waiting.get());
    *state = waiting.release();
    return MHD_YES;
  }

  void MakePages() {
    const auto something = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return stopping_ || !waiting_.empty();
    };
    while (true) {
      Waiting* waiting = nullptr;
      {
        absl::MutexLock lock(&mutex_);
        mutex_.Await(absl::Condition(&something));
        if (stopping_) return;
        waiting = waiting_.front();
        waiting_.pop_front();
      }
      waiting->page = Make(*waiting);
      MHD_resume_connection(waiting->connection);
    }
  }

  Page Make(const Waiting& waiting) const {
    if (!waiting.entry->open && pages_.gate()) {
      const absl::Status passes = pages_.gate()(waiting.authorization);
      if (!passes.ok())
        return {.code = MHD_HTTP_UNAUTHORIZED, .body = absl::StrCat(passes.message(), "\n")};
    }
    return (*waiting.entry)(waiting.request);
  }

  const Pages pages_;
  const bool own_machine_only_;
  const size_t connections_max_;
  std::string unknown_;
  MHD_Daemon* daemon_ = nullptr;
  // The server of libmicrohttpd's thread: each has one thread of its own.
  static thread_local Impl* of_this_thread_;
  // Of libmicrohttpd's thread. Null: no TLS.
  std::unique_ptr<LoadedIdentity> identity_;
  // Of libmicrohttpd's thread: the sockets of connections, by age.
  std::map<intptr_t, int> open_;
  intptr_t newest_ = 0;
  absl::Mutex mutex_;
  // Suspended connections whose pages no thread makes yet.
  std::deque<Waiting*> waiting_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

thread_local HttpServer::Impl* HttpServer::Impl::of_this_thread_ = nullptr;

absl::StatusOr<HttpServer::Options> HttpServer::OptionsFrom(const std::string& listen) {
  absl::StatusOr<HostPort> address = ParseHostPort(listen);
  if (!address.ok()) return address.status();
  return Options{.address = address->host == "localhost" ? "127.0.0.1" : address->host,
                 .port = address->port};
}

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(const Options& options, Pages pages) {
  if (options.port < 0 || options.port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("HTTP port ", options.port, ": expected 0 to 65535"));
  }
  if (options.address.empty()) return absl::InvalidArgumentError("HTTP: the host is missing");
  if (options.identity && MHD_is_feature_supported(MHD_FEATURE_TLS) != MHD_YES)
    return absl::UnimplementedError("this machine's libmicrohttpd has no TLS");
  const bool own_machine_only = IsLoopback(options.address) && !pages.gate();
  auto impl = std::make_unique<Impl>(std::move(pages), own_machine_only,
                                     static_cast<size_t>(options.connections_max));
  if (!impl->Start(options)) return ListenFault({options.address, options.port});
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl), options.address));
}

HttpServer::HttpServer(std::unique_ptr<Impl> impl, std::string host)
    : impl_(std::move(impl)), host_(std::move(host)) {}

HttpServer::~HttpServer() = default;

int HttpServer::port() const { return impl_->port(); }
std::string HttpServer::address() const { return HostPortText(host_, port()); }

}  // namespace longhaul
