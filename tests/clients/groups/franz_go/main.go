// Scenarios of groups and transactions with franz-go. `franz SCENARIO ADDRESS NAME` ends with exit code 0, or says what
// was not as it should be. NAME is what topics, groups and transactional ids begin with.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sort"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const patience = 30 * time.Second

var (
	address string
	name    string
)

func check(err error, doing string) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", doing, err)
		os.Exit(1)
	}
}

func require(holds bool, format string, values ...any) {
	if !holds {
		fmt.Fprintf(os.Stderr, format+"\n", values...)
		os.Exit(1)
	}
}

func client(options ...kgo.Opt) *kgo.Client {
	made, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(address), kgo.FetchMaxWait(100 * time.Millisecond),
		kgo.MetadataMinAge(100 * time.Millisecond), kgo.MetadataMaxAge(500 * time.Millisecond)}, options...)...)
	check(err, "new client")
	return made
}

func create(topic string, partitions int32) string {
	admin := kadm.NewClient(client())
	defer admin.Close()
	_, err := admin.CreateTopic(context.Background(), partitions, -1, nil, topic)
	check(err, "create "+topic)
	return topic
}

func send(topic string, count int, partitions int32) {
	producer := client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	defer producer.Close()
	for number := 0; number < count; number++ {
		record := &kgo.Record{Topic: topic, Partition: int32(number) % partitions, Value: fmt.Appendf(nil, "%d", number)}
		check(producer.ProduceSync(context.Background(), record).FirstErr(), "produce")
	}
}

// A member of a group that polls on its own.
type member struct {
	client   *kgo.Client
	mutex    sync.Mutex
	assigned map[int32]bool
	changes  int
	lost     int
	values   []string
	done     chan struct{}
}

func join(group string, options ...kgo.Opt) *member {
	one := &member{assigned: map[int32]bool{}, done: make(chan struct{})}
	change := func(present bool) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
			one.mutex.Lock()
			defer one.mutex.Unlock()
			for _, numbers := range partitions {
				if len(numbers) > 0 {
					one.changes++
				}
				for _, number := range numbers {
					if present {
						one.assigned[number] = true
					} else {
						delete(one.assigned, number)
					}
				}
			}
		}
	}
	lost := change(false)
	one.client = client(append([]kgo.Opt{kgo.ConsumerGroup(group), kgo.DisableAutoCommit(),
		kgo.SessionTimeout(6 * time.Second), kgo.HeartbeatInterval(200 * time.Millisecond),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.OnPartitionsAssigned(change(true)),
		kgo.OnPartitionsRevoked(change(false)),
		kgo.OnPartitionsLost(func(ctx context.Context, cl *kgo.Client, partitions map[string][]int32) {
			one.lost++
			lost(ctx, cl, partitions)
		})}, options...)...)
	go func() {
		defer close(one.done)
		for {
			fetches := one.client.PollFetches(context.Background())
			if fetches.IsClientClosed() {
				return
			}
			one.mutex.Lock()
			fetches.EachRecord(func(record *kgo.Record) { one.values = append(one.values, string(record.Value)) })
			one.mutex.Unlock()
		}
	}()
	return one
}

func (one *member) count() int {
	one.mutex.Lock()
	defer one.mutex.Unlock()
	return len(one.assigned)
}

func (one *member) close() {
	one.client.Close()
	<-one.done
}

func until(what string, claim func() bool) {
	deadline := time.Now().Add(patience)
	for !claim() {
		require(time.Now().Before(deadline), "not in time: %s", what)
		time.Sleep(10 * time.Millisecond)
	}
}

func evenly(partitions int, members ...*member) bool {
	total := 0
	for _, one := range members {
		count := one.count()
		if count < partitions/len(members) {
			return false
		}
		total += count
	}
	return total == partitions
}

func share(options ...kgo.Opt) {
	topic := create(name, 6)
	options = append(options, kgo.ConsumeTopics(topic))
	first := join(name, options...)
	until("one member has all", func() bool { return evenly(6, first) })
	second := join(name, options...)
	third := join(name, options...)
	until("three members share", func() bool { return evenly(6, first, second, third) })
	send(topic, 60, 6)
	received := func() []string {
		var all []string
		for _, one := range []*member{first, second, third} {
			one.mutex.Lock()
			all = append(all, one.values...)
			one.mutex.Unlock()
		}
		return all
	}
	until("all records come", func() bool { return len(received()) >= 60 })
	all := received()
	sort.Strings(all)
	for number := 1; number < len(all); number++ {
		require(all[number] != all[number-1], "%s came twice", all[number])
	}
	for _, one := range []*member{first, second, third} {
		check(one.client.CommitUncommittedOffsets(context.Background()), "commit")
	}
	second.close()
	until("the two that stay share", func() bool { return evenly(6, first, third) })
	require(first.lost == 0 && third.lost == 0, "partitions were lost, not revoked")
	first.close()
	third.close()
	admin := kadm.NewClient(client())
	offsets, err := admin.FetchOffsets(context.Background(), name)
	check(err, "fetch offsets")
	for partition := int32(0); partition < 6; partition++ {
		found, ok := offsets.Lookup(topic, partition)
		require(ok && found.At == 10, "partition %d is committed at %v", partition, found.At)
	}
	lags, err := admin.Lag(context.Background(), name)
	check(err, "lag")
	require(lags[name].Lag.Total() == 0, "the lag is %d", lags[name].Lag.Total())
	deleted, err := admin.DeleteGroups(context.Background(), name)
	check(err, "delete groups")
	check(deleted[name].Err, "delete group")
}

func static() {
	topic := create(name, 6)
	left := join(name, kgo.ConsumeTopics(topic), kgo.InstanceID("left"))
	right := join(name, kgo.ConsumeTopics(topic), kgo.InstanceID("right"))
	until("both share", func() bool { return evenly(6, left, right) })
	changes := right.changes
	left.close()
	time.Sleep(600 * time.Millisecond)
	again := join(name, kgo.ConsumeTopics(topic), kgo.InstanceID("left"))
	until("the member is back", func() bool { return evenly(6, again, right) })
	require(right.changes == changes, "the other member was rebalanced")
	again.close()
	right.close()
}

func regex() {
	create(name+"-a", 2)
	one := join(name, kgo.ConsumeTopics("^"+name+"-.*"), kgo.ConsumeRegex())
	until("the first topic", func() bool { return one.count() == 2 })
	create(name+"-b", 4)
	until("the second topic", func() bool { return one.count() == 4 }) // partition numbers of both, together
	one.close()
}

// transform reads, writes doubled and commits both at once; every third transaction is aborted and done again.
func transform() {
	source, sink := create(name+"-source", 3), create(name+"-sink", 1)
	send(source, 90, 3)
	session, err := kgo.NewGroupTransactSession(kgo.SeedBrokers(address), kgo.TransactionalID(name),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumerGroup(name), kgo.ConsumeTopics(source),
		kgo.FetchMaxBytes(1024), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.RequireStableFetchOffsets())
	check(err, "new session")
	done := 0
	deadline := time.Now().Add(patience)
	for round := 0; done < 90; round++ {
		require(time.Now().Before(deadline), "only %d records were transformed", done)
		fetches := session.PollRecords(context.Background(), 7)
		check(fetches.Err(), "poll")
		check(session.Begin(), "begin")
		count := 0
		fetches.EachRecord(func(record *kgo.Record) {
			count++
			session.Produce(context.Background(), &kgo.Record{Topic: sink, Value: append([]byte("x"), record.Value...)}, nil)
		})
		committed, err := session.End(context.Background(), kgo.TransactionEndTry(round%3 != 2))
		check(err, "end")
		if committed {
			done += count
		}
	}
	session.Close()
	reader := client(kgo.ConsumeTopics(sink), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	seen := map[string]bool{}
	for len(seen) < 90 {
		require(time.Now().Before(deadline), "only %d records are seen", len(seen))
		reader.PollFetches(context.Background()).EachRecord(func(record *kgo.Record) {
			require(!seen[string(record.Value)], "%s is there twice", record.Value)
			seen[string(record.Value)] = true
		})
	}
	reader.Close()
}

func fence() {
	topic := create(name, 1)
	zombie := client(kgo.TransactionalID(name), kgo.DefaultProduceTopic(topic))
	check(zombie.BeginTransaction(), "begin")
	check(zombie.ProduceSync(context.Background(), kgo.StringRecord("never")).FirstErr(), "produce")
	successor := client(kgo.TransactionalID(name), kgo.DefaultProduceTopic(topic))
	check(successor.BeginTransaction(), "begin")
	check(successor.ProduceSync(context.Background(), kgo.StringRecord("seen")).FirstErr(), "produce")
	check(successor.EndTransaction(context.Background(), kgo.TryCommit), "commit")
	err := zombie.ProduceSync(context.Background(), kgo.StringRecord("never")).FirstErr()
	if err == nil {
		err = zombie.EndTransaction(context.Background(), kgo.TryCommit)
	}
	require(errors.Is(err, kerr.ProducerFenced) || errors.Is(err, kerr.InvalidProducerEpoch) ||
		errors.Is(err, kerr.InvalidTxnState) || errors.Is(err, kerr.TransactionAbortable), "the zombie was told %v", err)
}

// versions lists what the broker advertises of groups and transactions, for a look at what franz-go chooses from.
func versions() {
	one := client()
	answer, err := kmsg.NewPtrApiVersionsRequest().RequestWith(context.Background(), one)
	check(err, "api versions")
	for _, key := range answer.ApiKeys {
		fmt.Println(kmsg.NameForKey(key.ApiKey), key.MinVersion, key.MaxVersion)
	}
}

func main() {
	scenario := os.Args[1]
	address, name = os.Args[2], os.Args[3]
	switch scenario {
	case "cooperative":
		share(kgo.Balancers(kgo.CooperativeStickyBalancer()))
	case "range":
		share(kgo.Balancers(kgo.RangeBalancer()))
	case "sticky":
		share(kgo.Balancers(kgo.StickyBalancer()))
	case "next-gen":
		share(kgo.WithContext(context.WithValue(context.Background(), "opt_in_kafka_next_gen_balancer_beta", true)))
	case "static":
		static()
	case "regex":
		regex()
	case "transform":
		transform()
	case "fence":
		fence()
	case "versions":
		versions()
	default:
		require(false, "there is no scenario %q", scenario)
	}
}
