package android.app.job;

public class JobScheduler {
    public JobInfo scheduled;

    public int schedule(JobInfo job) {
        scheduled = job;
        return 1;
    }

    public void cancel(int jobId) {
        if (scheduled != null && scheduled.id == jobId) {
            scheduled = null;
        }
    }
}
