package android.app.job;

import android.content.Context;

public abstract class JobService extends Context {
    public static Boolean finished;

    public abstract boolean onStartJob(JobParameters params);

    public abstract boolean onStopJob(JobParameters params);

    public final void jobFinished(JobParameters params, boolean wantsReschedule) {
        finished = wantsReschedule;
    }

    public void onDestroy() {}
}
