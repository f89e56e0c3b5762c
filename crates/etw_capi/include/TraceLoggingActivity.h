/*
 * Activities of TraceLogging: events of one activity id, from a start to a stop. C++11 and later.
 *
 *     TraceLoggingActivity<g_provider> activity;
 *     TraceLoggingWriteStart(activity, "Download", TraceLoggingString(url, "Url"));
 *     TraceLoggingWriteTagged(activity, "Redirected");
 *     TraceLoggingWriteStop(activity, "Download", TraceLoggingUInt32(status, "Status"));
 *
 * Events have the keyword and level of their activity; do not give them another level.
 */
#ifndef OPENETW_TRACELOGGINGACTIVITY_H
#define OPENETW_TRACELOGGINGACTIVITY_H

#pragma GCC system_header

#ifndef __cplusplus
#error "TraceLoggingActivity.h needs C++"
#endif

#include <TraceLoggingProvider.h>

/* An activity of a provider. One that is started and not stopped stops when it is destroyed. */
template <struct _tlgProvider_t (&provider)[1], UINT64 keyword = 0, UCHAR level = 5, bool isOfThread = false>
class OpenEtwActivity {
public:
  static constexpr UINT64 openetwKeyword = keyword;
  static constexpr UCHAR openetwLevel = level;

  OpenEtwActivity() : id_(), related_(), outer_(), isStarted_(false), hasRelated_(false) {
    EventActivityIdControl(EVENT_ACTIVITY_CTRL_CREATE_ID, &id_);
  }
  OpenEtwActivity(OpenEtwActivity const &) = delete;
  OpenEtwActivity &operator=(OpenEtwActivity const &) = delete;
  ~OpenEtwActivity() {
    if (OpenEtwStop()) {
      TraceLoggingWriteActivity(provider, "ActivityStoppedAutomatically", &id_, NULL, TraceLoggingOpcode(2),
                                TraceLoggingKeyword(keyword), TraceLoggingLevel(level));
    }
  }

  TraceLoggingHProvider Provider() const { return provider; }
  LPCGUID Id() const { return &id_; }
  /* The activity that caused this one, which its start event has; NULL if there is none. */
  LPCGUID RelatedId() const { return hasRelated_ ? &related_ : NULL; }
  BOOLEAN IsStarted() const { return isStarted_; }
  /* Sets what caused this activity, before it starts. */
  void SetRelatedActivityId(GUID const &related) {
    related_ = related;
    hasRelated_ = true;
  }
  void SetRelatedActivityId(LPCGUID related) { SetRelatedActivityId(*related); }
  template <class Other> void SetRelatedActivity(Other const &other) { SetRelatedActivityId(other.Id()); }

  /* For TraceLoggingWriteStart: returns whether the activity had not started. */
  bool OpenEtwStart() {
    if (isStarted_) {
      return false;
    }
    isStarted_ = true;
    if (isOfThread) {
      outer_ = id_;
      EventActivityIdControl(EVENT_ACTIVITY_CTRL_GET_SET_ID, &outer_);
      if (!hasRelated_ && outer_ != GUID()) {
        SetRelatedActivityId(outer_);
      }
    }
    return true;
  }
  /* For TraceLoggingWriteStop: returns whether the activity had started. */
  bool OpenEtwStop() {
    if (!isStarted_) {
      return false;
    }
    isStarted_ = false;
    if (isOfThread) {
      EventActivityIdControl(EVENT_ACTIVITY_CTRL_SET_ID, &outer_);
    }
    return true;
  }

private:
  GUID id_;
  GUID related_;
  /* The thread's activity before this one. */
  GUID outer_;
  bool isStarted_;
  bool hasRelated_;
};

template <struct _tlgProvider_t (&provider)[1], UINT64 keyword = 0, UCHAR level = 5>
using TraceLoggingActivity = OpenEtwActivity<provider, keyword, level, false>;
/* An activity that is the thread's from its start to its stop, both on that thread. */
template <struct _tlgProvider_t (&provider)[1], UINT64 keyword = 0, UCHAR level = 5>
using TraceLoggingThreadActivity = OpenEtwActivity<provider, keyword, level, true>;

#define OPENETW_TL_ACTIVITY_(activity, relatedId, opcode, eventName, ...)                                              \
  TraceLoggingWriteActivity((activity).Provider(), eventName, (activity).Id(), (relatedId), TraceLoggingOpcode(opcode),\
                            TraceLoggingKeyword(::std::decay<decltype(activity)>::type::openetwKeyword),               \
                            TraceLoggingLevel(::std::decay<decltype(activity)>::type::openetwLevel), ##__VA_ARGS__)

/* Starts an activity; does nothing if it has started. */
#define TraceLoggingWriteStart(activity, eventName, ...)                                                               \
  do {                                                                                                                 \
    if ((activity).OpenEtwStart()) {                                                                                   \
      OPENETW_TL_ACTIVITY_(activity, (activity).RelatedId(), 1, eventName, ##__VA_ARGS__);                             \
    }                                                                                                                  \
  } while (0)
/* Stops an activity; does nothing if it has not started. */
#define TraceLoggingWriteStop(activity, eventName, ...)                                                                \
  do {                                                                                                                 \
    if ((activity).OpenEtwStop()) {                                                                                    \
      OPENETW_TL_ACTIVITY_(activity, NULL, 2, eventName, ##__VA_ARGS__);                                               \
    }                                                                                                                  \
  } while (0)
/* Writes an event of an activity. */
#define TraceLoggingWriteTagged(activity, eventName, ...)                                                              \
  OPENETW_TL_ACTIVITY_(activity, NULL, 0, eventName, ##__VA_ARGS__)

#endif
