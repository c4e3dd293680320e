#include "call/call.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "gate/pool.h"

namespace hg::call {
namespace {

using gate::Axis;
using gate::Settlement;
using gate::Verdict;
using How = End::How;
using wire::RefusalKind;

constexpr Instant kStart{1000s};

Demand demand() {
  Demand result;
  result.id_prefix = "shim-1.7";
  result.shim = "shim-1";
  result.alias = "pool/claude-code";
  result.estimate = 10'000;
  result.charge = 10'000;
  result.text_chars = 48'900;
  result.flat_tokens = 12;
  return result;
}

Patience patience(Micros hold_cap = 540s) {
  Patience result;
  result.hold_cap = hold_cap;
  return result;
}

Call fresh(Micros hold_cap = 540s, std::uint64_t seed = 1) {
  return {demand(), patience(hold_cap), Rng(seed), kStart};
}

gate::AcquireReply admitted() {
  gate::AcquireReply reply;
  reply.verdict = Verdict::admitted;
  return reply;
}

gate::AcquireReply denied(Micros predicted, Axis axis = Axis::tok) {
  gate::AcquireReply reply;
  reply.verdict = Verdict::denied;
  reply.axis = axis;
  reply.place = 3;
  reply.predicted_wait = predicted;
  return reply;
}

gate::AcquireReply verdict(Verdict what) {
  gate::AcquireReply reply;
  reply.verdict = what;
  return reply;
}

Answer answer(RefusalKind kind, int status, std::optional<Micros> retry_after = std::nullopt) {
  Answer result;
  result.status = status;
  result.refusal.kind = kind;
  result.refusal.retry_after = retry_after;
  return result;
}

gate::Usage usage(Tokens uncached, Tokens cached, Tokens output) {
  gate::Usage result;
  result.uncached = uncached;
  result.cached = cached;
  result.output = output;
  return result;
}

End end(How how) {
  End result;
  result.how = how;
  return result;
}

// Brings a fresh call to the provider.
Call sent(Micros hold_cap = 540s, std::uint64_t seed = 1) {
  Call call = fresh(hold_cap, seed);
  EXPECT_EQ(call.next(kStart).what, Do::ask);
  call.on_reply(admitted(), kStart);
  EXPECT_EQ(call.next(kStart).what, Do::send);
  return call;
}

Call relaying() {
  Call call = sent();
  call.on_answer(answer(RefusalKind::none, 200), kStart + 2s);
  EXPECT_EQ(call.next(kStart + 2s).what, Do::relay);
  return call;
}

TEST(CallTest, AFreeGateLeadsStraightToAnAnswerAndOneSettlement) {
  Call call = fresh();
  const Step ask = call.next(kStart);
  ASSERT_EQ(ask.what, Do::ask);
  EXPECT_EQ(ask.ask.id, "shim-1.7.1");
  EXPECT_EQ(ask.ask.charge, 10'000);
  EXPECT_EQ(ask.ask.hold_left, Micros{540s});
  EXPECT_EQ(ask.ask.since, Micros{0});
  call.on_reply(admitted(), kStart);
  EXPECT_EQ(call.next(kStart).what, Do::send);
  ASSERT_TRUE(call.lease());
  EXPECT_EQ(call.lease()->id, "shim-1.7.1");
  call.on_answer(answer(RefusalKind::none, 200), kStart + 2s);
  EXPECT_EQ(call.next(kStart + 2s).what, Do::relay);
  End whole = end(How::complete);
  whole.usage = usage(9'000, 1'500, 300);
  call.on_end(whole, kStart + 5s);
  const Step settle = call.next(kStart + 5s);
  ASSERT_EQ(settle.what, Do::settle);
  EXPECT_EQ(settle.settle.by, Settlement::usage);
  EXPECT_EQ(settle.settle.usage, usage(9'000, 1'500, 300));
  EXPECT_EQ(settle.settle.text_chars, 48'900);
  EXPECT_EQ(settle.settle.flat_tokens, 12);
  EXPECT_TRUE(call.lease()) << "held until the gate has it back";
  call.on_done(kStart + 5s);
  EXPECT_EQ(call.next(kStart + 5s).what, Do::finish);
  EXPECT_FALSE(call.lease());
  EXPECT_EQ(call.record().outcome, Record::Outcome::ok);
  EXPECT_EQ(call.record().tries, 1);
}

TEST(CallTest, AskingTwiceForTheNextStepGivesTheSame) {
  Call call = fresh();
  EXPECT_EQ(call.next(kStart).ask.id, call.next(kStart).ask.id);
  call.on_reply(denied(10s), kStart);
  EXPECT_EQ(call.next(kStart).until, call.next(kStart + 1s).until);
}

TEST(CallTest, ADeniedCallSleepsPastThePredictionAndNeverPastItsHold) {
  Call call = fresh();
  ASSERT_EQ(call.next(kStart).what, Do::ask);
  call.on_reply(denied(40s, Axis::req), kStart);
  const Step wait = call.next(kStart);
  ASSERT_EQ(wait.what, Do::wait);
  EXPECT_GE(wait.until, kStart + 51s);  // 40 x 1.25 + 1.
  EXPECT_LE(wait.until, kStart + 62s);  // And up to a fifth.
  EXPECT_EQ(call.record().last_axis, Axis::req);
  EXPECT_EQ(call.record().last_place, 3);
  EXPECT_FALSE(call.lease());

  Call tight = fresh(45s);
  ASSERT_EQ(tight.next(kStart).what, Do::ask);
  tight.on_reply(denied(600s), kStart);
  EXPECT_EQ(tight.next(kStart).until, kStart + 45s);
}

TEST(CallTest, APausedPoolIsAskedAgainWhenTheNextProbeMayPass) {
  Call call = fresh();
  ASSERT_EQ(call.next(kStart).what, Do::ask);
  gate::AcquireReply reply = denied(0s, Axis::paused);
  reply.pause_left = 60s;
  call.on_reply(reply, kStart);
  EXPECT_GE(call.next(kStart).until, kStart + 60s);
}

TEST(CallTest, AWokenWaiterAsksAgainUnderTheSameId) {
  Call call = fresh();
  ASSERT_EQ(call.next(kStart).what, Do::ask);
  call.on_reply(denied(40s), kStart);
  ASSERT_EQ(call.next(kStart).what, Do::wait);
  call.on_timer(kStart + 7s);
  const Step again = call.next(kStart + 7s);
  ASSERT_EQ(again.what, Do::ask);
  EXPECT_EQ(again.ask.id, "shim-1.7.1");
  EXPECT_EQ(again.ask.hold_left, Micros{533s});
  call.on_reply(admitted(), kStart + 7s);
  EXPECT_EQ(call.record().waited, Micros{7s});
  EXPECT_EQ(call.record().asks, 2);
}

TEST(CallTest, TheHoldCapEndsInLeavingTheQueueAndOurOwnRefusal) {
  Call call = fresh(45s);
  ASSERT_EQ(call.next(kStart).what, Do::ask);
  call.on_reply(denied(600s), kStart);
  call.on_timer(kStart + 45s);
  const Step leave = call.next(kStart + 45s);
  ASSERT_EQ(leave.what, Do::leave);
  EXPECT_TRUE(leave.timed_out);
  EXPECT_EQ(leave.id, "shim-1.7.1");
  call.on_done(kStart + 45s);
  const Step refuse = call.next(kStart + 45s);
  ASSERT_EQ(refuse.what, Do::refuse);
  EXPECT_EQ(refuse.refusal, OwnRefusal::hold_cap);
  EXPECT_EQ(call.record().seniority, Micros{45s}) << "known before the answer goes out";
  call.on_done(kStart + 46s);
  EXPECT_EQ(call.next(kStart + 46s).what, Do::finish);
  EXPECT_EQ(call.record().outcome, Record::Outcome::refused_by_us);
  EXPECT_EQ(call.record().tries, 0);
  EXPECT_EQ(call.record().waited, Micros{45s});
}

TEST(CallTest, SeniorityAddsUpToOneHoldCap) {
  Demand back = demand();
  back.since = 30s;
  Call call(back, patience(45s), Rng(1), kStart);
  EXPECT_EQ(call.next(kStart).ask.since, Micros{30s});
  call.on_reply(denied(600s), kStart);
  call.on_timer(kStart + 45s);
  call.on_done(kStart + 45s);
  ASSERT_EQ(call.next(kStart + 45s).what, Do::refuse);
  EXPECT_EQ(call.record().seniority, Micros{45s});
}

TEST(CallTest, AnEndedIdOrALostPoolIsAskedAgainWithinTheHold) {
  Call call = fresh(10s);
  ASSERT_EQ(call.next(kStart).what, Do::ask);
  call.on_reply(verdict(Verdict::ended), kStart);
  ASSERT_EQ(call.next(kStart).what, Do::wait);
  EXPECT_EQ(call.next(kStart).until, kStart + 1s);
  call.on_timer(kStart + 1s);
  EXPECT_EQ(call.next(kStart + 1s).ask.id, "shim-1.7.2") << "an ended id can never be admitted";
  call.on_reply(verdict(Verdict::no_pool), kStart + 1s);
  EXPECT_EQ(call.next(kStart + 1s).until, kStart + 2s);
  call.on_timer(kStart + 10s);
  call.on_done(kStart + 10s);
  EXPECT_EQ(call.next(kStart + 10s).what, Do::refuse);
}

TEST(CallTest, SixOverloadsAreAbsorbedEachGivingItsAdmissionBackAndAskingAnew) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Call call = sent(3600s, seed);
    Instant now = kStart;
    const Micros waits[] = {30s, 60s, 90s, 90s, 90s, 90s};
    int tries = 1;
    for (const Micros usual : waits) {
      call.on_answer(answer(RefusalKind::overload, 529), now);
      const Step back = call.next(now);
      ASSERT_EQ(back.what, Do::give_back);
      EXPECT_EQ(back.id, "shim-1.7." + std::to_string(tries));
      EXPECT_TRUE(call.lease());
      call.on_done(now);
      EXPECT_FALSE(call.lease());
      const Step sleep = call.next(now);
      ASSERT_EQ(sleep.what, Do::back_off);
      EXPECT_GE(sleep.until - now, usual * 8 / 10);
      EXPECT_LE(sleep.until - now, usual * 12 / 10);
      now = sleep.until;
      call.on_timer(now);
      const Step ask = call.next(now);
      ASSERT_EQ(ask.what, Do::ask);
      EXPECT_EQ(ask.ask.id, "shim-1.7." + std::to_string(++tries));
      EXPECT_EQ(ask.ask.since, now - kStart) << "it has been waiting all the time";
      call.on_reply(admitted(), now);
      ASSERT_EQ(call.next(now).what, Do::send);
    }
    call.on_answer(answer(RefusalKind::overload, 429), now);
    ASSERT_EQ(call.next(now).what, Do::give_back);
    call.on_done(now);
    ASSERT_EQ(call.next(now).what, Do::refuse);
    EXPECT_EQ(call.next(now).refusal, OwnRefusal::overload);
    call.on_done(now);
    EXPECT_EQ(call.next(now).what, Do::finish);
    EXPECT_EQ(call.record().tries, 7);
    EXPECT_EQ(call.record().overloads, 7);
    EXPECT_EQ(call.record().outcome, Record::Outcome::refused_by_us);
    EXPECT_EQ(call.record().backed_off, now - kStart);
  }
}

TEST(CallTest, AnOverloadWaitsAtMostAThirdOfTheHoldCapAndSpreads) {
  Micros least{1h};
  Micros most{0};
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    Call call = sent(45s, seed);
    call.on_answer(answer(RefusalKind::overload, 503), kStart);
    call.on_done(kStart);
    const Micros wait = call.next(kStart).until - kStart;
    least = std::min(least, wait);
    most = std::max(most, wait);
  }
  EXPECT_LE(most, Micros{15s});
  EXPECT_GE(least, Micros{12s});
  EXPECT_GT(most - least, Micros{2s}) << "a fleet must not come back in one moment";
}

TEST(CallTest, AnOverloadThatCannotBeWaitedOutInTheHoldIsRefusedAtOnce) {
  Call call = sent(45s);
  const Instant late = kStart + 40s;
  call.on_answer(answer(RefusalKind::overload, 529), late);
  ASSERT_EQ(call.next(late).what, Do::give_back);
  call.on_done(late);
  ASSERT_EQ(call.next(late).what, Do::refuse);
  EXPECT_EQ(call.next(late).refusal, OwnRefusal::overload);
  EXPECT_EQ(call.record().seniority, Micros{40s});
}

TEST(CallTest, ASleepThatEndsPastTheHoldIsRefused) {
  Call call = sent(45s);
  call.on_answer(answer(RefusalKind::overload, 529), kStart);
  call.on_done(kStart);
  ASSERT_EQ(call.next(kStart).what, Do::back_off);
  call.on_timer(kStart + 50s);  // The machine slept.
  ASSERT_EQ(call.next(kStart + 50s).what, Do::refuse);
  EXPECT_EQ(call.next(kStart + 50s).refusal, OwnRefusal::overload);
}

TEST(CallTest, ARetryAfterShapesTheWaitAndNothingElse) {
  struct Row {
    const char* why;
    Micros hint;
    int earlier_overloads;
    Micros least, most;
  };
  const Row rows[] = {
      {"it is waited as said, and up to a fifth longer", 7s, 0, 7s, 8400ms},
      {"zero is no licence for a tight loop", 0s, 0, 1s, 1200ms},
      {"longer than the usual wait: earlier tries would fail", 50s, 0, 50s, 60s},
      {"the second time it is believed half as much", 7s, 1, 14s, 16800ms},
      {"doubling ends at the usual wait", 20s, 2, 80s, 108s},
      {"but never below what was said", 120s, 2, 120s, 144s},
  };
  for (const Row& row : rows) {
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
      Call call = sent(3600s, seed);
      Instant now = kStart;
      for (int i = 0; i <= row.earlier_overloads; ++i) {
        if (i > 0) {
          call.on_timer(now);
          ASSERT_EQ(call.next(now).what, Do::ask);
          call.on_reply(admitted(), now);
        }
        call.on_answer(answer(RefusalKind::overload, 429, row.hint), now);
        call.on_done(now);
        const Step sleep = call.next(now);
        ASSERT_EQ(sleep.what, Do::back_off) << row.why;
        if (i == row.earlier_overloads) {
          EXPECT_GE(sleep.until - now, row.least) << row.why;
          EXPECT_LE(sleep.until - now, row.most) << row.why;
        }
        now = sleep.until;
      }
    }
  }
}

TEST(CallTest, ARetryAfterPastTheHoldIsNotWaited) {
  Call call = sent(45s);
  call.on_answer(answer(RefusalKind::overload, 429, 60s), kStart);
  call.on_done(kStart);
  EXPECT_EQ(call.next(kStart).what, Do::refuse);
}

TEST(CallTest, AnExhaustedQuotaPausesThePoolAndIsPassedOn) {
  Call call = sent();
  call.on_answer(answer(RefusalKind::quota, 429), kStart);
  const Step pause = call.next(kStart);
  ASSERT_EQ(pause.what, Do::pause_pool);
  EXPECT_EQ(pause.pause, Micros{600s});
  call.on_done(kStart);
  EXPECT_EQ(call.next(kStart).what, Do::relay);
  call.on_end(end(How::complete), kStart);
  ASSERT_EQ(call.next(kStart).what, Do::settle);
  EXPECT_EQ(call.next(kStart).settle.by, Settlement::refund);
  call.on_done(kStart);
  EXPECT_EQ(call.next(kStart).what, Do::finish);
  EXPECT_EQ(call.record().outcome, Record::Outcome::refused_by_provider);
  EXPECT_EQ(call.record().overloads, 0);
}

// The settlement table of the design, by what was seen.
TEST(CallTest, SettlementFollowsWhatWasSeen) {
  struct Row {
    const char* why;
    RefusalKind refusal;  // Of the answer's head.
    bool refused_calls_count;
    std::optional<gate::Usage> refusal_usage;
    End end;
    Settlement by;
    std::optional<gate::Usage> usage;
    Record::Outcome outcome;
  };
  End counted = end(How::complete);
  counted.usage = usage(100, 200, 30);
  End uncounted = end(How::complete);
  uncounted.output_seen = true;
  uncounted.output_estimate = 77;
  End cut = end(How::upstream_broke);
  cut.usage = usage(100, 200, 0);
  cut.output_estimate = 55;
  End cut_blind = end(How::upstream_broke);
  End gone = end(How::client_gone);
  gone.usage = usage(100, 200, 0);
  gone.output_estimate = 5;
  End gone_blind = end(How::client_gone);
  // As Anthropic's message_start says it: one token of output, and the rest at the end.
  End cut_late = end(How::upstream_broke);
  cut_late.usage = usage(100, 200, 1);
  cut_late.output_seen = true;
  cut_late.output_estimate = 900;
  End gone_late = cut_late;
  gone_late.how = How::client_gone;
  End broke_with_error = cut_late;
  broke_with_error.how = How::stream_error;
  broke_with_error.stream_refusal = RefusalKind::server;
  End gone_after_more = gone_late;
  gone_after_more.usage = usage(100, 200, 1'000);
  // As gateways say it that learn the input at the end.
  End gone_unknown = gone_late;
  gone_unknown.usage = usage(0, 0, 0);
  End nothing_said = end(How::complete);
  nothing_said.usage = usage(100, 0, 0);
  nothing_said.output_seen = true;
  End all_zero = end(How::complete);
  all_zero.usage = usage(0, 0, 0);
  End failed = end(How::stream_error);
  failed.stream_refusal = RefusalKind::server;
  End failed_unknown = failed;
  failed_unknown.usage = usage(0, 0, 0);
  End failed_late = failed;
  failed_late.output_seen = true;
  using Outcome = Record::Outcome;
  const Row rows[] = {
      {"usage: usage",
       RefusalKind::none,
       false,
       {},
       counted,
       Settlement::usage,
       usage(100, 200, 30),
       Outcome::ok},
      {"output without usage: the estimate",
       RefusalKind::none,
       false,
       {},
       uncounted,
       Settlement::estimate,
       {},
       Outcome::ok},
      {"cut: usage so far, output as it flowed",
       RefusalKind::none,
       false,
       {},
       cut,
       Settlement::usage,
       usage(100, 200, 55),
       Outcome::upstream_failed},
      {"cut before usage: the estimate",
       RefusalKind::none,
       false,
       {},
       cut_blind,
       Settlement::estimate,
       {},
       Outcome::upstream_failed},
      {"client gone: what usage said so far",
       RefusalKind::none,
       false,
       {},
       gone,
       Settlement::usage,
       usage(100, 200, 5),
       Outcome::client_gone},
      {"client gone before usage: the estimate",
       RefusalKind::none,
       false,
       {},
       gone_blind,
       Settlement::estimate,
       {},
       Outcome::client_gone},
      {"cut amid the output: what flowed, not the count at the start",
       RefusalKind::none,
       false,
       {},
       cut_late,
       Settlement::usage,
       usage(100, 200, 900),
       Outcome::upstream_failed},
      {"client gone amid the output: the same",
       RefusalKind::none,
       false,
       {},
       gone_late,
       Settlement::usage,
       usage(100, 200, 900),
       Outcome::client_gone},
      {"error event amid the output: the same",
       RefusalKind::none,
       false,
       {},
       broke_with_error,
       Settlement::usage,
       usage(100, 200, 900),
       Outcome::upstream_failed},
      {"a later count that is more than flowed",
       RefusalKind::none,
       false,
       {},
       gone_after_more,
       Settlement::usage,
       usage(100, 200, 1'000),
       Outcome::client_gone},
      {"client gone while usage still said nothing: the estimate, not zero",
       RefusalKind::none,
       false,
       {},
       gone_unknown,
       Settlement::estimate,
       {},
       Outcome::client_gone},
      {"the provider says no output: believed",
       RefusalKind::none,
       false,
       {},
       nothing_said,
       Settlement::usage,
       usage(100, 0, 0),
       Outcome::ok},
      {"the provider says zero of everything at the end: believed",
       RefusalKind::none,
       false,
       {},
       all_zero,
       Settlement::usage,
       usage(0, 0, 0),
       Outcome::ok},
      {"error event before any output: refund",
       RefusalKind::none,
       false,
       {},
       failed,
       Settlement::refund,
       {},
       Outcome::upstream_failed},
      {"error event before any output, usage still empty: refund",
       RefusalKind::none,
       false,
       {},
       failed_unknown,
       Settlement::refund,
       {},
       Outcome::upstream_failed},
      {"error event after output: the estimate",
       RefusalKind::none,
       false,
       {},
       failed_late,
       Settlement::estimate,
       {},
       Outcome::upstream_failed},
      {"refused as a bad request: refund",
       RefusalKind::request,
       false,
       {},
       end(How::complete),
       Settlement::refund,
       {},
       Outcome::refused_by_provider},
      {"refused, where refusals count: the estimate",
       RefusalKind::request,
       true,
       {},
       end(How::complete),
       Settlement::estimate,
       {},
       Outcome::refused_by_provider},
      {"refused with usage of its own", RefusalKind::request, false, usage(7, 0, 0),
       end(How::complete), Settlement::usage, usage(7, 0, 0), Outcome::refused_by_provider},
      {"failed inside: refund",
       RefusalKind::server,
       false,
       {},
       end(How::complete),
       Settlement::refund,
       {},
       Outcome::upstream_failed},
      {"another gate's refusal is passed on",
       RefusalKind::ours,
       false,
       {},
       end(How::complete),
       Settlement::refund,
       {},
       Outcome::refused_by_provider},
      {"a refusal whose reader left: refund",
       RefusalKind::request,
       false,
       {},
       gone_blind,
       Settlement::refund,
       {},
       Outcome::client_gone},
  };
  for (const Row& row : rows) {
    Demand asked = demand();
    asked.refused_calls_count = row.refused_calls_count;
    Call call(asked, patience(), Rng(1), kStart);
    ASSERT_EQ(call.next(kStart).what, Do::ask);
    call.on_reply(admitted(), kStart);
    Answer head = answer(row.refusal, row.refusal == RefusalKind::none ? 200 : 400);
    head.usage = row.refusal_usage;
    call.on_answer(head, kStart);
    ASSERT_EQ(call.next(kStart).what, Do::relay) << row.why;
    call.on_end(row.end, kStart);
    const Step settle = call.next(kStart);
    ASSERT_EQ(settle.what, Do::settle) << row.why;
    EXPECT_EQ(settle.settle.by, row.by) << row.why;
    EXPECT_EQ(settle.settle.usage, row.usage.value_or(gate::Usage())) << row.why;
    EXPECT_EQ(settle.settle.text_chars, row.by == Settlement::usage ? 48'900 : 0) << row.why;
    EXPECT_FALSE(settle.settle.overloaded) << row.why;
    call.on_done(kStart);
    EXPECT_EQ(call.next(kStart).what, Do::finish) << row.why;
    EXPECT_EQ(call.record().outcome, row.outcome) << row.why;
    EXPECT_EQ(call.record().settled_by, row.by) << row.why;
  }
}

// A try that got no answer, and the 502 that ends it.
void expect_refused_by_502(Call& call, Instant now) {
  ASSERT_EQ(call.next(now).what, Do::settle);
  EXPECT_EQ(call.next(now).settle.by, Settlement::refund);
  call.on_done(now);
  ASSERT_EQ(call.next(now).what, Do::refuse);
  EXPECT_EQ(call.next(now).refusal, OwnRefusal::upstream);
  call.on_done(now);
  EXPECT_EQ(call.next(now).what, Do::finish);
  EXPECT_EQ(call.record().outcome, Record::Outcome::upstream_failed);
  EXPECT_EQ(call.record().seniority, Micros{0}) << "that is for our own 429s";
}

TEST(CallTest, SilenceIsRefundedAndAnsweredByUs) {
  Call call = sent();
  call.on_no_answer(NoAnswer::silent, kStart + 1s);
  expect_refused_by_502(call, kStart + 1s);
  EXPECT_EQ(call.record().unanswered, 1);
}

TEST(CallTest, WhatNoWaitingHelpsIsAnsweredAtOnce) {
  Call call = sent(540s);
  call.on_no_answer(NoAnswer::misconfigured, kStart + 1s);
  expect_refused_by_502(call, kStart + 1s);
  EXPECT_EQ(call.record().unreachable, 1);
}

TEST(CallTest, AConnectionThatEndsWithoutAByteIsRepeatedOnce) {
  Call call = sent(540s);
  const std::string first = call.next(kStart).id;
  call.on_no_answer(NoAnswer::no_bytes, kStart + 1s);
  ASSERT_EQ(call.next(kStart + 1s).what, Do::settle);
  EXPECT_EQ(call.next(kStart + 1s).settle.by, Settlement::refund);
  call.on_done(kStart + 1s);
  const Step rest = call.next(kStart + 1s);
  ASSERT_EQ(rest.what, Do::back_off);
  EXPECT_GT(rest.until, kStart + 1s);
  EXPECT_LT(rest.until, kStart + 2s);
  EXPECT_FALSE(call.lease()) << "charged anew, like any other try";
  call.on_timer(rest.until);
  ASSERT_EQ(call.next(rest.until).what, Do::ask);
  EXPECT_NE(call.next(rest.until).ask.id, first);
  call.on_reply(admitted(), rest.until);
  ASSERT_EQ(call.next(rest.until).what, Do::send);
  // Not a second time.
  call.on_no_answer(NoAnswer::no_bytes, rest.until);
  expect_refused_by_502(call, rest.until);
  EXPECT_EQ(call.record().tries, 2);
  EXPECT_EQ(call.record().unanswered, 2);
}

TEST(CallTest, NothingIsRepeatedPastTheHold) {
  Call call = sent(2s);
  call.on_no_answer(NoAnswer::no_bytes, kStart + 1'900ms);
  expect_refused_by_502(call, kStart + 1'900ms);
  // Nor when the sleep took longer than it should have.
  Call late = sent(2s);
  late.on_no_answer(NoAnswer::no_bytes, kStart);
  late.on_done(kStart);
  ASSERT_EQ(late.next(kStart).what, Do::back_off);
  late.on_timer(kStart + 3s);
  ASSERT_EQ(late.next(kStart + 3s).what, Do::refuse);
  EXPECT_EQ(late.next(kStart + 3s).refusal, OwnRefusal::upstream);
  EXPECT_EQ(late.record().outcome, Record::Outcome::upstream_failed);
}

// Lets a provider that was sent to be unreachable; answers the moment at which the call asks
// anew, or nothing when it refuses.
std::optional<Instant> after_failing_to_reach(Call& call, Instant now) {
  call.on_no_answer(NoAnswer::not_sent, now);
  EXPECT_EQ(call.next(now).what, Do::settle);
  EXPECT_EQ(call.next(now).settle.by, Settlement::refund);
  call.on_done(now);
  const Step step = call.next(now);
  if (step.what == Do::refuse) return std::nullopt;
  EXPECT_EQ(step.what, Do::back_off);
  EXPECT_FALSE(call.lease());
  call.on_timer(step.until);
  EXPECT_EQ(call.next(step.until).what, Do::ask);
  call.on_reply(admitted(), step.until);
  EXPECT_EQ(call.next(step.until).what, Do::send);
  return step.until;
}

TEST(CallTest, AProviderThatCannotBeReachedIsTriedAgainForAWhile) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Call call = sent(540s, seed);
    Instant now = kStart;
    Micros last{0};
    for (;;) {
      const std::optional<Instant> next = after_failing_to_reach(call, now);
      if (!next) break;
      EXPECT_GE(*next - now, last) << "waits grow";
      last = *next - now;
      now = *next;
    }
    EXPECT_GE(now - kStart, Micros{5s}) << "a blip of 5 s is waited out";
    EXPECT_LT(now - kStart, Micros{20s}) << "an outage is said soon enough";
    EXPECT_EQ(call.next(now).refusal, OwnRefusal::upstream);
    call.on_done(now);
    EXPECT_EQ(call.next(now).what, Do::finish);
    EXPECT_EQ(call.record().outcome, Record::Outcome::upstream_failed);
    EXPECT_EQ(call.record().overloads, 0) << "that is no refusal of the provider's";
    EXPECT_EQ(call.record().unreachable, call.record().tries);
  }
}

TEST(CallTest, AnOutageThatEndsLeavesNoTrace) {
  Call call = sent();
  const std::optional<Instant> next = after_failing_to_reach(call, kStart);
  ASSERT_TRUE(next);
  call.on_answer(answer(RefusalKind::none, 200), *next);
  ASSERT_EQ(call.next(*next).what, Do::relay);
  call.on_end(end(How::complete), *next);
  EXPECT_EQ(call.next(*next).what, Do::settle);
  call.on_done(*next);
  EXPECT_EQ(call.record().outcome, Record::Outcome::ok);
}

TEST(CallTest, AnOutageIsNotWaitedOutPastTheHold) {
  Call call = sent(2s);
  EXPECT_FALSE(after_failing_to_reach(call, kStart + 1'900ms));
  EXPECT_EQ(call.next(kStart + 1'900ms).refusal, OwnRefusal::upstream);
  // Nor when the sleep took longer than it should have.
  Call late = sent(2s);
  late.on_no_answer(NoAnswer::not_sent, kStart);
  late.on_done(kStart);
  ASSERT_EQ(late.next(kStart).what, Do::back_off);
  late.on_timer(kStart + 3s);
  EXPECT_EQ(late.next(kStart + 3s).what, Do::refuse);
  EXPECT_EQ(late.next(kStart + 3s).refusal, OwnRefusal::upstream);
  late.on_done(kStart + 3s);
  EXPECT_EQ(late.record().outcome, Record::Outcome::upstream_failed);
}

TEST(CallTest, AnOverloadInsideAStreamIsCountedAndSettled) {
  End late = end(How::stream_error);
  late.stream_refusal = RefusalKind::overload;
  late.output_seen = true;
  late.usage = usage(100, 0, 9);
  Call call = relaying();
  call.on_end(late, kStart + 3s);
  const Step settle = call.next(kStart + 3s);
  ASSERT_EQ(settle.what, Do::settle) << "bytes went down: no retry";
  EXPECT_TRUE(settle.settle.overloaded);
  EXPECT_EQ(settle.settle.by, Settlement::usage);
  call.on_done(kStart + 3s);
  EXPECT_EQ(call.next(kStart + 3s).what, Do::finish);
  EXPECT_EQ(call.record().outcome, Record::Outcome::refused_by_provider);
  EXPECT_EQ(call.record().overloads, 1);

  End early = end(How::stream_error);
  early.stream_refusal = RefusalKind::overload;
  Call unused = relaying();
  unused.on_end(early, kStart + 3s);
  EXPECT_EQ(unused.next(kStart + 3s).what, Do::give_back) << "nothing was used: as any overload";
  unused.on_done(kStart + 3s);
  EXPECT_EQ(unused.next(kStart + 3s).what, Do::finish);
}

TEST(CallTest, AQuotaErrorInsideAStreamPausesThePoolAndIsSettled) {
  End late = end(How::stream_error);
  late.stream_refusal = RefusalKind::quota;
  late.output_seen = true;
  Call call = relaying();
  call.on_end(late, kStart + 3s);
  ASSERT_EQ(call.next(kStart + 3s).what, Do::pause_pool);
  call.on_done(kStart + 3s);
  ASSERT_EQ(call.next(kStart + 3s).what, Do::settle);
  EXPECT_EQ(call.next(kStart + 3s).settle.by, Settlement::estimate);
  call.on_done(kStart + 3s);
  EXPECT_EQ(call.next(kStart + 3s).what, Do::finish);
}

// Where the client may leave, and what has to be done then, step by step.
TEST(CallTest, AClientThatLeavesInAnyStateLeavesNothingBehind) {
  const auto steps_after = [](Call call) {
    call.on_client_gone(kStart + 1s);
    call.on_client_gone(kStart + 1s);
    std::vector<Do> steps;
    for (int i = 0; i < 10; ++i) {
      const Step step = call.next(kStart + 1s);
      steps.push_back(step.what);
      if (step.what == Do::finish) break;
      call.on_done(kStart + 1s);
    }
    EXPECT_FALSE(call.lease());
    EXPECT_EQ(call.record().outcome, Record::Outcome::client_gone);
    return steps;
  };
  using Steps = std::vector<Do>;

  EXPECT_EQ(steps_after(fresh()), (Steps{Do::finish})) << "nothing was asked";

  Call asking = fresh();
  EXPECT_EQ(asking.next(kStart).what, Do::ask);
  EXPECT_EQ(steps_after(asking), (Steps{Do::leave, Do::settle, Do::finish}))
      << "the reply is unknown: waiter or lease, it goes";

  Call held = asking;
  held.on_reply(denied(20s), kStart);
  EXPECT_EQ(steps_after(held), (Steps{Do::leave, Do::finish}));

  Call woken = held;
  woken.on_timer(kStart + 1s);
  EXPECT_EQ(steps_after(woken), (Steps{Do::leave, Do::finish})) << "a waiter about to ask again";

  Call leaving = held;
  leaving.on_timer(kStart + 540s);
  EXPECT_EQ(steps_after(leaving), (Steps{Do::leave, Do::finish}));

  Call refusing = leaving;
  refusing.on_done(kStart + 540s);
  EXPECT_EQ(steps_after(refusing), (Steps{Do::finish}));

  EXPECT_EQ(steps_after(sent()), (Steps{Do::settle, Do::finish}));

  Call giving_back = sent();
  giving_back.on_answer(answer(RefusalKind::overload, 529), kStart);
  EXPECT_EQ(steps_after(giving_back), (Steps{Do::give_back, Do::finish}));

  Call backing_off = giving_back;
  backing_off.on_done(kStart);
  EXPECT_EQ(steps_after(backing_off), (Steps{Do::finish}));

  Call pausing = sent();
  pausing.on_answer(answer(RefusalKind::quota, 429), kStart);
  EXPECT_EQ(steps_after(pausing), (Steps{Do::pause_pool, Do::settle, Do::finish}));

  EXPECT_EQ(steps_after(relaying()), (Steps{Do::settle, Do::finish}));

  Call unreachable = sent();
  unreachable.on_no_answer(NoAnswer::not_sent, kStart);
  EXPECT_EQ(steps_after(unreachable), (Steps{Do::settle, Do::finish}));
}

TEST(CallTest, AClientThatLeavesAfterTheAnswerChangesNothing) {
  Call call = relaying();
  End whole = end(How::complete);
  whole.usage = usage(1, 2, 3);
  call.on_end(whole, kStart + 3s);
  call.on_client_gone(kStart + 3s);
  EXPECT_EQ(call.next(kStart + 3s).settle.by, Settlement::usage);
  call.on_done(kStart + 3s);
  EXPECT_EQ(call.record().outcome, Record::Outcome::ok);
}

TEST(CallTest, AReplyThatComesAfterTheClientLeftIsIgnored) {
  Call call = fresh();
  ASSERT_EQ(call.next(kStart).what, Do::ask);
  call.on_client_gone(kStart);
  call.on_reply(admitted(), kStart);
  EXPECT_EQ(call.next(kStart).what, Do::leave);
  call.on_done(kStart);
  ASSERT_EQ(call.next(kStart).what, Do::settle);
  EXPECT_EQ(call.next(kStart).settle.by, Settlement::refund);
}

TEST(CallTest, ThePeekEndsAfterTenSecondsOrTwentyBeforeTheClientsLimit) {
  Patience unlimited = patience();
  EXPECT_EQ(Call(demand(), unlimited, Rng(1), kStart).peek_deadline(kStart + 5s), kStart + 15s);
  Patience limited = patience();
  limited.header_limit = 60s;
  const Call call(demand(), limited, Rng(1), kStart);
  EXPECT_EQ(call.peek_deadline(kStart + 35s), kStart + 40s);
  EXPECT_EQ(call.peek_deadline(kStart + 50s), kStart + 50s) << "no peek at all";
}

// A call against a real pool, its fate decided by a script of choices: at each point the script
// says which of the possible events happens. Walking over all scripts visits every sequence.
class Walk {
 public:
  Walk(std::vector<int> script, int depth, bool busy, Micros hold_cap)
      : script_(std::move(script)),
        depth_(depth),
        pool_(config(), gate::Birth::created_full, kStart),
        call_(demand(), short_patience(hold_cap), Rng(1), kStart) {
    if (busy) {
      gate::AcquireRequest other;
      other.id = "other-1.1.1";
      other.shim = "other-1";
      other.charge = 100'000;
      other.estimate = 1;
      other.lease_ttl = 3600s;
      EXPECT_EQ(pool_.acquire(other, kStart).verdict, Verdict::admitted);
    }
  }

  // Runs to the end; afterwards choices() holds how many there were at each point.
  void run() {
    for (int steps = 0; steps < 200; ++steps) {
      const Step step = call_.next(now_);
      if (step.what == Do::finish) {
        check();
        return;
      }
      play(step);
    }
    ADD_FAILURE() << "does not end: " << script_text();
  }

  [[nodiscard]] const std::vector<int>& choices() const { return choices_; }

 private:
  static gate::PoolConfig config() {
    gate::PoolConfig result;
    result.limits.c_burst = 100'000;
    result.limits.r_tok = 10'000;
    result.limits.k_inflight = 100'000;
    result.limits.c_req = 10;
    result.limits.r_qps = 10'000'000;
    result.seed = result.limits;
    return result;
  }

  static Patience short_patience(Micros hold_cap) {
    Patience result = patience(hold_cap);
    result.overload_tries = 1;
    result.lease_ttl = 3600s;
    return result;
  }

  int choose(int count) {
    const std::size_t at = choices_.size();
    choices_.push_back(int(at) < depth_ ? count : 1);
    return at < script_.size() ? script_[at] : 0;
  }

  void play(const Step& step) {
    switch (step.what) {
      case Do::ask:
        switch (choose(4)) {
          case 0: call_.on_reply(acquire(step), now_); return;
          case 1: call_.on_client_gone(now_); return;  // The ask never reached the gate.
          case 2:                                      // It did, the reply is lost or late.
            late_ = acquire(step);
            call_.on_client_gone(now_);
            call_.on_reply(late_, now_);
            return;
          default: call_.on_reply(verdict(Verdict::no_pool), now_); return;
        }
      case Do::wait:
        switch (choose(4)) {
          case 0: now_ = std::max(now_, step.until); break;
          case 1: now_ = now_ + 100ms; break;
          case 2: now_ = call_.hold_deadline() + 1s; break;
          default: call_.on_client_gone(now_); return;
        }
        call_.on_timer(now_);
        return;
      case Do::back_off:
        switch (choose(3)) {
          case 0: now_ = std::max(now_, step.until); break;
          case 1: now_ = call_.hold_deadline() + 1s; break;
          default: call_.on_client_gone(now_); return;
        }
        call_.on_timer(now_);
        return;
      case Do::send:
        ++sends_;
        EXPECT_TRUE(call_.lease());
        switch (choose(11)) {
          case 0: call_.on_answer(answer(RefusalKind::none, 200), now_); return;
          case 1: call_.on_answer(answer(RefusalKind::overload, 529), now_); return;
          case 2: call_.on_answer(answer(RefusalKind::overload, 429, 3s), now_); return;
          case 3: call_.on_answer(answer(RefusalKind::quota, 429), now_); return;
          case 4: call_.on_answer(answer(RefusalKind::request, 400), now_); return;
          case 5: call_.on_answer(answer(RefusalKind::server, 500), now_); return;
          case 6: call_.on_no_answer(NoAnswer::not_sent, now_); return;
          case 7: call_.on_no_answer(NoAnswer::no_bytes, now_); return;
          case 8: call_.on_no_answer(NoAnswer::silent, now_); return;
          case 9: call_.on_no_answer(NoAnswer::misconfigured, now_); return;
          default: call_.on_client_gone(now_); return;
        }
      case Do::relay: {
        now_ = now_ + 1s;
        End how;
        switch (choose(8)) {
          case 0: how.usage = usage(9'000, 0, 10); break;
          case 1: how.output_seen = true; break;
          case 2: how.how = How::upstream_broke; break;
          case 3: how.how = How::client_gone; break;
          case 4:
            how.how = How::stream_error;
            how.stream_refusal = RefusalKind::overload;
            break;
          case 5:
            how.how = How::stream_error;
            how.stream_refusal = RefusalKind::overload;
            how.output_seen = true;
            break;
          case 6:
            how.how = How::stream_error;
            how.stream_refusal = RefusalKind::quota;
            break;
          default: call_.on_client_gone(now_); return;
        }
        call_.on_end(how, now_);
        return;
      }
      case Do::refuse:
        if (choose(2) == 1) call_.on_client_gone(now_);
        call_.on_done(now_);
        return;
      case Do::leave:
        if (choose(2) == 1) call_.on_client_gone(now_);
        pool_.leave(step.id, gate::Pool::Leaving::gone, now_);
        call_.on_done(now_);
        return;
      case Do::give_back:
        if (choose(2) == 1) call_.on_client_gone(now_);
        ended_ += pool_.overload(step.id, now_) ? 1 : 0;
        call_.on_done(now_);
        return;
      case Do::settle:
        if (choose(2) == 1) call_.on_client_gone(now_);
        ended_ += pool_.settle(step.settle, now_) ? 1 : 0;
        call_.on_done(now_);
        return;
      case Do::pause_pool:
        if (choose(2) == 1) call_.on_client_gone(now_);
        call_.on_done(now_);
        return;
      case Do::finish: return;
    }
  }

  gate::AcquireReply acquire(const Step& step) {
    const gate::AcquireReply reply = pool_.acquire(step.ask, now_);
    if (reply.verdict == Verdict::admitted) ++admissions_;
    return reply;
  }

  void check() {
    gate::SettleRequest other;
    other.id = "other-1.1.1";
    pool_.settle(other, now_);
    EXPECT_TRUE(pool_.idle()) << script_text();
    EXPECT_FALSE(call_.lease()) << script_text();
    EXPECT_EQ(ended_, admissions_) << script_text();
    EXPECT_EQ(call_.record().tries, sends_) << script_text();
    const gate::PoolView full = pool_.view(now_ + 60s);
    EXPECT_EQ(full.tokens, 100'000 * kMicro) << script_text();
    EXPECT_EQ(full.inflight, 0) << script_text();
  }

  [[nodiscard]] std::string script_text() const {
    std::string text;
    for (const int choice : script_) text += std::to_string(choice) + " ";
    return text;
  }

  std::vector<int> script_;
  int depth_;
  gate::Pool pool_;
  Call call_;
  Instant now_ = kStart;
  gate::AcquireReply late_;
  std::vector<int> choices_;
  int admissions_ = 0;
  int ended_ = 0;
  int sends_ = 0;
};

// All scripts up to `depth` choices, in order, as an odometer counts. Answers how many there were.
int walk_all(int depth, bool busy, Micros hold_cap) {
  std::vector<int> script;
  for (int walks = 1;; ++walks) {
    Walk walk(script, depth, busy, hold_cap);
    walk.run();
    std::vector<int> counts = walk.choices();
    counts.resize(std::min<std::size_t>(counts.size(), std::size_t(depth)));
    script.resize(counts.size(), 0);
    while (!script.empty() && script.back() + 1 >= counts[script.size() - 1]) script.pop_back();
    if (script.empty() || testing::Test::HasFailure()) return walks;
    ++script.back();
  }
}

TEST(CallTest, NoSequenceOfEventsLeavesALeaseOrAWaiter) {
  EXPECT_GT(walk_all(12, false, 100s), 5'000);
  EXPECT_GT(walk_all(12, true, 100s), 10'000);
  EXPECT_GT(walk_all(12, true, 500ms), 500);
}

}  // namespace
}  // namespace hg::call
