import java.util.Scanner;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.metrics.MetricConfig;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.Quota;
import org.apache.kafka.common.metrics.QuotaViolationException;
import org.apache.kafka.common.metrics.Sensor;
import org.apache.kafka.common.metrics.stats.Rate;
import org.apache.kafka.server.quota.QuotaUtils;

/** Reads "limit time" lines, one event each, and prints how long Kafka would throttle after it: its own rate and rule. */
public class RateOracle {
    public static void main(String[] arguments) {
        Scanner events = new Scanner(System.in);
        Metrics metrics = new Metrics();
        StringBuilder delays = new StringBuilder();
        while (events.hasNextInt()) {
            int limit = events.nextInt();
            long now = events.nextLong();
            long delay = 0;
            try {
                sensor(metrics, limit).record(1.0, now);
            } catch (QuotaViolationException violation) {
                delay = QuotaUtils.boundedThrottleTime(violation, 1000, now);
            }
            delays.append(delay).append('\n');
        }
        System.out.print(delays);
    }

    private static Sensor sensor(Metrics metrics, int limit) {
        String name = "limit-" + limit;
        Sensor known = metrics.getSensor(name);
        if (known != null)
            return known;
        MetricConfig config =
            new MetricConfig().timeWindow(1, TimeUnit.SECONDS).samples(11).quota(new Quota(limit, true));
        Sensor sensor = metrics.sensor(name, config);
        sensor.add(metrics.metricName(name, "oracle"), new Rate(), null);
        return sensor;
    }
}
