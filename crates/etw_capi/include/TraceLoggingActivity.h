/*
 * Activities of TraceLogging: events of one activity id, from a start to a stop. C++11 and later.
 *
 *     TraceLoggingActivity<g_provider> activity;
 *     TraceLoggingWriteStart(activity, "Download", TraceLoggingString(url, "Url"));
 *     TraceLoggingWriteTagged(activity, "Redirected");
 *     TraceLoggingWriteStop(activity, "Download", TraceLoggingUInt32(status, "Status"));
 *
 * The events of start and stop have the keyword and level of the activity; give them no other ones.
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
/* Writes an event of an activity, with a level and keyword of its own. */
#define TraceLoggingWriteTagged(activity, eventName, ...)                                                              \
  TraceLoggingWriteActivity((activity).Provider(), eventName, (activity).Id(), NULL, ##__VA_ARGS__)
/* Writes an event of an activity that has started and not stopped. */
#define TraceLoggingWriteTaggedIfStarted(activity, eventName, ...)                                                     \
  do {                                                                                                                 \
    if ((activity).IsStarted()) {                                                                                      \
      TraceLoggingWriteTagged(activity, eventName, ##__VA_ARGS__);                                                     \
    }                                                                                                                  \
  } while (0)

/* Makes an activity the thread's for the life of this value. */
class TraceLoggingThreadActivityIdSetter {
public:
  explicit TraceLoggingThreadActivityIdSetter(LPCGUID id) : outer_(*id) {
    EventActivityIdControl(EVENT_ACTIVITY_CTRL_GET_SET_ID, &outer_);
  }
  template <class Activity> explicit TraceLoggingThreadActivityIdSetter(Activity const &activity) : outer_(*activity.Id()) {
    EventActivityIdControl(EVENT_ACTIVITY_CTRL_GET_SET_ID, &outer_);
  }
  TraceLoggingThreadActivityIdSetter(TraceLoggingThreadActivityIdSetter const &) = delete;
  TraceLoggingThreadActivityIdSetter &operator=(TraceLoggingThreadActivityIdSetter const &) = delete;
  ~TraceLoggingThreadActivityIdSetter() { EventActivityIdControl(EVENT_ACTIVITY_CTRL_SET_ID, &outer_); }

private:
  GUID outer_;
};

/*
 * An activity of the thread from here to the end of the scope, named after the function: TraceLoggingFunction(provider,
 * fields and options). It has the level and keywords of the options.
 */
#define TraceLoggingFunction(...) OPENETW_TL_FUNCTION_(__VA_ARGS__)
#define OPENETW_TL_FUNCTION_(handle, ...)                                                                              \
  TraceLoggingThreadActivity<handle, (0 OPENETW_TL_EACH_(KEYWORD, 0, ##__VA_ARGS__)),                                  \
                             OPENETW_TL_LEVEL_OF_(0, ##__VA_ARGS__)>                                                   \
      openetwFunctionActivity;                                                                                         \
  do {                                                                                                                 \
    openetwFunctionActivity.OpenEtwStart();                                                                            \
    struct _tlgProvider_t *const openetwProvider = openetwFunctionActivity.Provider();                                 \
    if (OPENETW_TL_IS_OPEN_(openetwProvider, OPENETW_TL_LEVEL_OF_(0, ##__VA_ARGS__))) {                                \
      enum { openetwNameSize = sizeof(__FUNCTION__) };                                                                 \
      OPENETW_TL_NAMED_(, char[openetwNameSize], {0}, TraceLoggingOpcode(1), ##__VA_ARGS__);                           \
      OPENETW_TL_CHECK_;                                                                                               \
      openetw_tl_fill(openetwEvent.item.data.openetwEventName, __FUNCTION__, sizeof(__FUNCTION__));                    \
      ::openetw_tl::write(openetwProvider, &openetwEvent.event, openetwFunctionActivity.Id(),                          \
                          openetwFunctionActivity.RelatedId() OPENETW_TL_EACH_(DATA, 0, ##__VA_ARGS__));               \
    }                                                                                                                  \
  } while (0)

/* Writes a name that is not a literal; all threads write the same. */
static inline __attribute__((unused)) void openetw_tl_fill(char *to, const char *name, size_t size) {
  for (size_t at = 0; at < size; at++) {
    __atomic_store_n(&to[at], name[at], __ATOMIC_RELAXED);
  }
}

#endif
