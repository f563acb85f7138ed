package android.app.job;

import android.content.ComponentName;
import android.os.PersistableBundle;

public class JobInfo {
    public int id;
    public int network;
    public long backoff;
    public int policy;
    public boolean persisted;
    public ComponentName service;
    public PersistableBundle extras;

    public static final class Builder {
        private final JobInfo made = new JobInfo();

        public Builder(int jobId, ComponentName jobService) {
            made.id = jobId;
            made.service = jobService;
        }

        public Builder setRequiredNetworkType(int networkType) {
            made.network = networkType;
            return this;
        }

        public Builder setBackoffCriteria(long initialBackoffMillis, int backoffPolicy) {
            made.backoff = initialBackoffMillis;
            made.policy = backoffPolicy;
            return this;
        }

        public Builder setPersisted(boolean isPersisted) {
            made.persisted = isPersisted;
            return this;
        }

        public Builder setExtras(PersistableBundle extras) {
            made.extras = extras;
            return this;
        }

        public JobInfo build() {
            return made;
        }
    }
}
