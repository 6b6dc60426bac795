package app

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"assay/internal/classes"
	"assay/internal/course/class"
	"assay/internal/guest"
	"assay/internal/judging"
	"assay/internal/sandbox"
	"assay/internal/work"
)

// meters count what happens in this process. All labels are words of a list, or
// templates of this host.
type meters struct {
	runs, gradings, made, failed, ran    *prometheus.CounterVec
	judgeSeconds, gradeSeconds, makeTime *prometheus.HistogramVec
}

// What takes from a tenth of a second to some minutes.
var longBuckets = []float64{.1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}

func newMeters(r *prometheus.Registry) *meters {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		r.MustRegister(c)
		return c
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
		r.MustRegister(h)
		return h
	}
	return &meters{
		runs:         counter("assay_runs_total", "Runs that were judged here.", "verdict"),
		judgeSeconds: histogram("assay_judge_seconds", "From the begin to the end of a judging.", longBuckets),
		gradings:     counter("assay_gradings_total", "Gradings that ended here.", "outcome"),
		gradeSeconds: histogram("assay_grade_wait_seconds", "From when a grading was asked for to its end.", longBuckets),
		made:         counter("assay_sandboxes_created_total", "Sandboxes that were given out, those of judgings too.", "template", "boot_mode"),
		failed:       counter("assay_sandboxes_failed_total", "Sandboxes that could not be made.", "template"),
		makeTime: histogram("assay_sandbox_create_seconds", "From asking for a sandbox to its answer.",
			[]float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 20}, "boot_mode"),
		ran: counter("assay_execs_total", "Commands that ended in sandboxes.", "cause"),
	}
}

// engine hears what the engine does.
func (m *meters) engine() sandbox.Observer {
	return sandbox.Observer{
		Made: func(template string, mode sandbox.BootMode, took time.Duration, err error) {
			if err != nil {
				m.failed.WithLabelValues(template).Inc()
				return
			}
			m.made.WithLabelValues(template, string(mode)).Inc()
			m.makeTime.WithLabelValues(string(mode)).Observe(took.Seconds())
		},
		Ran: func(cause guest.Cause) { m.ran.WithLabelValues(string(cause)).Inc() },
	}
}

// countedRuns counts the runs that are kept.
type countedRuns struct {
	judging.Store
	*meters
}

// FinishRun keeps a run and counts it.
func (c countedRuns) FinishRun(ctx context.Context, j work.Job, end work.End, r judging.Run) error {
	err := c.Store.FinishRun(ctx, j, end, r)
	if err == nil && r.Result != nil {
		c.runs.WithLabelValues(string(r.Verdict)).Inc()
		c.judgeSeconds.WithLabelValues().Observe(r.Result.FinishedAt.Sub(r.Result.StartedAt).Seconds())
	}
	return err
}

// countedGradings counts the gradings that are kept.
type countedGradings struct {
	classes.Store
	*meters
}

// FinishGrading keeps a grading and counts it.
func (c countedGradings) FinishGrading(ctx context.Context, j work.Job, end work.End, g classes.Grading, record func(class.Records) error) error {
	err := c.Store.FinishGrading(ctx, j, end, g, record)
	if err == nil {
		outcome := "graded"
		if g.Failed {
			outcome = "failed"
		}
		c.gradings.WithLabelValues(outcome).Inc()
		c.gradeSeconds.WithLabelValues().Observe(time.Since(g.Created).Seconds())
	}
	return err
}

// state tells, whenever it is asked, how things stand: the queue, the engine,
// and whether the parts answer.
type state struct{ s *Server }

var (
	jobsDesc    = prometheus.NewDesc("assay_jobs", "Jobs of all nodes.", []string{"kind", "state"}, nil)
	oldestDesc  = prometheus.NewDesc("assay_queue_oldest_seconds", "For how long the oldest job that waits has waited.", []string{"kind"}, nil)
	liveDesc    = prometheus.NewDesc("assay_sandboxes_live", "Sandboxes on this node, those of judgings too.", []string{"template"}, nil)
	memoryDesc  = prometheus.NewDesc("assay_sandbox_memory_bytes", "Memory that sandboxes on this node may have (limit) and have (held).", []string{"what"}, nil)
	waitingDesc = prometheus.NewDesc("assay_pool_waiting", "Machines that wait in the pool, never used.", []string{"template"}, nil)
	upDesc      = prometheus.NewDesc("assay_up", "Whether a part that the server needs answers.", []string{"part"}, nil)
)

// scrapeWait is how long the parts may take to answer for the metrics.
const scrapeWait = 2 * time.Second

// Describe names what Collect gives.
func (state) Describe(c chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{jobsDesc, oldestDesc, liveDesc, memoryDesc, waitingDesc, upDesc} {
		c <- d
	}
}

// Collect gives the present. What cannot be asked is left out.
func (st state) Collect(c chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		c <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	s := st.s
	for part, err := range askAll(context.Background(), scrapeWait, s.parts()) {
		up := 1.0
		if err != nil {
			up = 0
		}
		gauge(upDesc, up, part)
	}
	ctx, cancel := context.WithTimeout(context.Background(), scrapeWait)
	defer cancel()
	if counts, err := s.db.Work().Counts(ctx); err == nil {
		for _, n := range counts {
			gauge(jobsDesc, float64(n.Jobs), n.Kind, string(n.State))
			if n.State == work.Queued {
				gauge(oldestDesc, time.Since(n.Oldest).Seconds(), n.Kind)
			}
		}
	}
	if s.Engine == nil {
		return
	}
	live := map[string]int{}
	for _, sb := range s.Engine.Manager.List() {
		live[sb.Info().Template]++
	}
	for template, n := range live {
		gauge(liveDesc, float64(n), template)
	}
	for template, n := range s.Engine.Manager.Waiting() {
		gauge(waitingDesc, float64(n), template)
	}
	l := s.load()
	gauge(memoryDesc, float64(l.Memory), "limit")
	gauge(memoryDesc, float64(l.Held), "held")
}
