#include "cli/doctor_upstream.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "base/text.h"
#include "cli/daemon.h"
#include "cli/doctor_machine.h"
#include "cli/doctor_verdicts.h"
#include "cli/run_task.h"
#include "cli/version.h"
#include "net/client.h"
#include "net/probe.h"
#include "proxy/route.h"

namespace hg::cli {

namespace json = boost::json;

namespace {

constexpr std::size_t kAnswerBytesMax = std::size_t{4} << 20;
constexpr Micros kCallWithin = 30s;

// A request to the upstream, its target without the base path.
struct Question {
  net::RequestHead head;
  std::string body;
};

// One look at one upstream: the parts live on this thread's event loop.
class Examination {
 public:
  Examination(const UpstreamJob& job, const UpstreamPlan& plan,
              const std::function<void(Finding)>& say)
      : job_(job),
        plan_(plan),
        say_(say),
        about_(about_upstream(job.upstream)),
        client_(context_.get_executor(), clock_, client_config()) {}

  void run() {
    if (!reach()) return;
    const auto direct = ask_directly();
    if (!direct) return;
    through_a_gate(*direct);
    client_.close_idle();
    context_.poll();
  }

 private:
  struct Pair {
    PlainAnswer first;
    PlainAnswer again;  // On the same connection: the time of the answer alone.
  };

  const net::Url& url() const { return job_.upstream.url; }

  net::ClientConfig client_config() {
    net::ClientConfig config;
    config.ca_file = plan_.config.ca_file;
    config.connect_within = plan_.within;
    if (auto proxy = net::proxy_from_environment()) config.proxy = std::move(*proxy);
    return config;
  }

  // The way there; whether it makes sense to ask something.
  bool reach() {
    if (url().scheme == net::Scheme::unix_socket) return true;
    const auto from_environment = net::proxy_from_environment();
    if (!from_environment) {
      say_(problem("upstream.proxy", about_, from_environment.error().detail,
                   "Correct HTTPS_PROXY (or ALL_PROXY): until then it is not used at all."));
    }
    const net::OutboundProxy* proxy = nullptr;
    if (from_environment && *from_environment && net::goes_through(**from_environment, url())) {
      proxy = &**from_environment;
    }
    if (from_environment && *from_environment && proxy == nullptr &&
        url().scheme == net::Scheme::https) {
      say_(fine("upstream.proxy", about_,
                "a proxy is set, and not used for this host (NO_PROXY, or it is loopback)"));
    }
    const auto probe = run_task(context_,
                                net::probe_upstream(context_.get_executor(), clock_, url(), proxy,
                                                    plan_.config.ca_file, plan_.within));
    const std::string via = proxy == nullptr ? "" : proxy->url.authority();
    bool whole = true;
    for (Finding& finding : judge_probe(about_, url(), probe, via, clock_.wall())) {
      whole = whole && finding.level != Level::problem;
      say_(std::move(finding));
    }
    if (!whole) return false;
    if (url().scheme == net::Scheme::http && !is_loopback(url().host)) {
      say_(warning("upstream.clear_text", about_, "calls and keys go there in the clear",
                   "Use https, unless nobody else is on that network."));
    }
    if (url().scheme == net::Scheme::http &&
        ask_listener(url(), plan_.within).who == Listener::gate) {
      say_(warning("upstream.is_gate", about_, "a Headgate answers there, not a provider",
                   "Name the provider's own address by url: two gates hold each call twice, and "
                   "one that is its own upstream runs in a circle."));
    }
    return true;
  }

  void add_key(Headers& headers) const {
    if (job_.key.empty()) return;
    const bool token = job_.key_variable.ends_with("TOKEN");
    const auto& fields = job_.profile->auth_headers;
    const std::string field = token || fields.empty() ? "authorization" : fields.front();
    headers.add(field, field == "authorization" ? "Bearer " + job_.key : job_.key);
  }

  Question question(std::string method, std::string target, wire::Dialect dialect,
                    std::string body = "") const {
    Question made{net::RequestHead(std::move(method), std::move(target)), std::move(body)};
    Headers& headers = made.head.headers;
    headers.add("User-Agent", fmt::format("headgate-doctor/{}", kVersion));
    headers.add("Accept", "application/json");
    if (!made.body.empty()) headers.add("Content-Type", "application/json");
    if (dialect == wire::Dialect::anthropic_messages) {
      headers.add("anthropic-version", "2023-06-01");
    }
    add_key(headers);
    return made;
  }

  // What every provider of this dialect answers without a charge.
  Question free_question() const {
    const wire::Dialect dialect = job_.profile->main_dialect;
    if (dialect == wire::Dialect::gemini_generate)
      return question("GET", "/v1beta/models", dialect);
    if (dialect == wire::Dialect::other) return question("HEAD", "/", dialect);
    return question("GET", "/v1/models", dialect);
  }

  Result<PlainAnswer> ask(const net::Url& where, const std::string& prefix,
                          const Question& question, Micros within) {
    net::RequestHead head = question.head;
    head.target = prefix.empty() ? proxy::upstream_target(where.path, head.target)
                                 : prefix + head.target;
    const Instant start = clock_.now();
    auto fetched = run_task(context_,
                            client_.fetch(where, head, question.body, within, kAnswerBytesMax));
    if (!fetched) return std::unexpected(fetched.error());
    PlainAnswer answer;
    answer.head = std::move(fetched->head);
    answer.body = std::move(fetched->body);
    answer.took = clock_.now() - start;
    return answer;
  }

  Result<Pair> ask_twice(const net::Url& where, const std::string& prefix,
                         const Question& question) {
    auto first = ask(where, prefix, question, plan_.within);
    if (!first) return std::unexpected(first.error());
    auto again = ask(where, prefix, question, plan_.within);
    if (!again) return std::unexpected(again.error());
    Pair pair;
    pair.first = std::move(*first);
    pair.again = std::move(*again);
    return pair;
  }

  std::optional<Pair> ask_directly() {
    const Question free = free_question();
    const std::string asked = fmt::format("{} {}", free.head.method,
                                          proxy::upstream_target(url().path, free.head.target));
    const WallTime sent = clock_.wall();
    auto first = ask(url(), "", free, plan_.within);
    const WallTime got = clock_.wall();
    if (!first) {
      say_(problem("upstream.silent", about_,
                   fmt::format("no answer to {}: {}", asked, first.error().detail),
                   "See whether this is the address of an HTTP API, and whether it is up."));
      return std::nullopt;
    }
    say_(judge_answer(about_, asked, *first, job_.key_variable));
    if (const auto ahead = clock_ahead(first->head, sent, got)) say_(judge_clock(about_, *ahead));
    auto again = ask(url(), "", free, plan_.within);
    if (!again) {
      say_(problem("upstream.silent", about_,
                   fmt::format("no second answer to {}: {}", asked, again.error().detail),
                   "It fails now and then: see its log, or ask once more."));
      return std::nullopt;
    }
    Pair pair;
    pair.first = std::move(*first);
    pair.again = std::move(*again);
    return pair;
  }

  // A gate of the doctor's own, in this process, that knows this upstream alone.
  Config gate_config() const {
    Config config = plan_.config;
    config.listen_host = "127.0.0.1";
    config.listen_port = 0;
    config.default_upstream.clear();
    config.pools.clear();
    config.upstreams.clear();
    UpstreamSettings settings;
    settings.name = job_.upstream.name;
    settings.url = url().text();
    settings.profile = job_.profile->name;
    config.upstreams.push_back(settings);
    return config;
  }

  void through_a_gate(const Pair& direct) {
    Daemon daemon(context_.get_executor(), clock_, *plan_.profiles, gate_config());
    const auto started = run_task(context_, daemon.start("", ""));
    if (!started) {
      say_(problem("gate.start", about_, "no gate can be started: " + started.error().detail,
                   "Mend what it says; headgate serve would say the same."));
    } else if (const auto gate = net::parse_url(daemon.base_url())) {
      const std::string prefix = fmt::format("/upstream/{}", job_.upstream.name);
      compare(*gate, prefix, direct);
      if (plan_.call) compare_calls(*gate, prefix, direct.first);
    }
    client_.close_idle();
    run_task(context_, daemon.stop(0s));
  }

  void compare(const net::Url& gate, const std::string& prefix, const Pair& direct) {
    const auto gated = ask_twice(gate, prefix, free_question());
    if (!gated) {
      say_(problem("gate.silent", about_,
                   fmt::format("directly it answers, through a gate there is no answer: {}",
                               gated.error().detail),
                   kTell));
      return;
    }
    std::vector<std::string> found = differences(direct.first, direct.again, gated->again);
    const Micros more = gated->again.took - direct.again.took;
    if (found.empty()) {
      say_(fine("gate.same", about_,
                fmt::format("through a gate the same comes: status, fields, {} bytes; {:+.1f} ms",
                            gated->again.body.size(), to_seconds(more) * 1e3)));
      return;
    }
    const bool values_alone = std::all_of(
        found.begin(), found.end(),
        [](const std::string& difference) { return difference.starts_with(kValueOf); });
    if (values_alone) {
      say_(warning("gate.values_differ", about_, "through a gate it differs: " + joined(found),
                   "Most likely another server of the provider answered: ask once more, and report "
                   "it if it is always so."));
      return;
    }
    say_(problem("gate.differs", about_, "through a gate it differs: " + joined(found), kTell));
  }

  void compare_calls(const net::Url& gate, const std::string& prefix, const PlainAnswer& list) {
    std::string model = plan_.model;
    if (model.empty()) model = cheapest(models_in(list.body).value_or(std::vector<std::string>()));
    if (model.empty()) {
      say_(warning("call.no_model", about_, "no call was made: its list names no model",
                   "Name one by --model."));
      return;
    }
    for (const wire::Dialect dialect :
         {wire::Dialect::anthropic_messages, wire::Dialect::openai_chat,
          wire::Dialect::openai_responses, wire::Dialect::gemini_generate}) {
      if (!job_.profile->speaks(dialect)) continue;
      const Question call = tiny_call(dialect, model);
      const std::string what = fmt::format("{} call of {}", wire::to_string(dialect), model);
      const auto direct = ask(url(), "", call, kCallWithin);
      const auto gated = ask(gate, prefix, call, kCallWithin);
      if (!direct || !gated) {
        say_(problem("call.silent", about_,
                     fmt::format("no answer to {} {}: {}", what, direct ? "through a gate" : "",
                                 (direct ? gated.error() : direct.error()).detail),
                     direct ? kTell : "Look at the provider's status page, and try again."));
        continue;
      }
      const std::vector<std::string> found = call_differences(*direct, *gated);
      if (!found.empty()) {
        say_(problem("call.differs", about_,
                     fmt::format("{} differs through a gate: {}", what, joined(found)), kTell));
      } else if (direct->head.status / 100 != 2) {
        say_(warning(
            "call.refused", about_,
            fmt::format("{} is answered {}, through a gate as well", what, direct->head.status),
            "If it should be possible, see key and model (--model)."));
      } else {
        say_(fine("call.same", about_,
                  fmt::format("{}: {} ms directly, {} ms through a gate, the same shape", what,
                              direct->took.count() / 1000, gated->took.count() / 1000)));
      }
    }
  }

  Question tiny_call(wire::Dialect dialect, const std::string& model) const {
    constexpr std::string_view kText = "Say ok.";
    json::object body;
    std::string target = "/v1/chat/completions";
    json::object message;
    message["role"] = "user";
    message["content"] = kText;
    json::array messages;
    messages.push_back(message);
    if (dialect == wire::Dialect::gemini_generate) {
      target = fmt::format("/v1beta/models/{}:generateContent", model);
      body = json::parse(R"({"contents": [{"role": "user", "parts": [{"text": "Say ok."}]}],
                             "generationConfig": {"maxOutputTokens": 16}})")
                 .as_object();
    } else {
      body["model"] = model;
      if (dialect == wire::Dialect::openai_responses) {
        target = "/v1/responses";
        body["input"] = kText;
        body["max_output_tokens"] = 16;  // The least that is allowed.
      } else {
        if (dialect == wire::Dialect::anthropic_messages) target = "/v1/messages";
        body["messages"] = messages;
        // Others know the old name only.
        const bool new_name = dialect == wire::Dialect::openai_chat &&
                              job_.profile->name == "openai";
        body[new_name ? "max_completion_tokens" : "max_tokens"] = 16;
      }
    }
    return question("POST", target, dialect, json::serialize(body));
  }

  static std::string joined(const std::vector<std::string>& parts) {
    std::string text;
    for (const std::string& part : parts) text += (text.empty() ? "" : "; ") + part;
    return text;
  }

  static constexpr const char* kTell =
      "A gate must not do that: point the program at the provider for now, and report it with the "
      "output of headgate doctor --json.";

  const UpstreamJob& job_;
  const UpstreamPlan& plan_;
  const std::function<void(Finding)>& say_;
  std::string about_;
  boost::asio::io_context context_{1};
  OsClock clock_;
  net::Client client_;
};

}  // namespace

void examine_upstream(const UpstreamJob& job, const UpstreamPlan& plan,
                      const std::function<void(Finding)>& say) {
  Examination(job, plan, say).run();
}

std::string about_upstream(const proxy::Upstream& upstream) {
  return fmt::format("upstream {} ({})", upstream.name, upstream.url.text());
}

}  // namespace hg::cli
