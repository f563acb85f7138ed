package org.trimask.survey;

import android.app.job.JobParameters;
import android.app.job.JobService;
import android.content.pm.PackageManager;
import android.os.Process;
import java.io.File;
import org.kivy.android.PythonService;
import org.kivy.android.PythonUtil;

/**
 * Sends what waits while the app is closed: Android starts this when there is a network, in a process of its own, which
 * runs sending.py (trimask_mobile.phone.background) and is ended afterwards.
 *
 * <p>A job and no service of python-for-android's: its services end when the app is swiped away, or need a notification.
 */
public class SendingJob extends JobService {
    /** The extra that says of which installation the job is: see {@link #onStartJob}. */
    public static final String INSTALLED = "installed";

    private static SendingJob running;

    private JobParameters parameters;

    /** Called by sending.py when it is through; {@code again}: something still waits. */
    public static void finish(boolean again) {
        running.jobFinished(running.parameters, again);
    }

    @Override
    public boolean onStartJob(JobParameters started) {
        if (running != null) {
            jobFinished(started, true); // Python starts once in a process; the next process has its turn
            return true;
        }
        if (started.getExtras().getLong(INSTALLED) != installed()) {
            return false; // the sources unpacked are of the version before; the app unpacks the new ones when it is opened
        }
        running = this;
        parameters = started;
        new Thread(this::run, "sending").start();
        return true;
    }

    /** The network is gone, or the app is in front again. What is on disk is whole at any moment. */
    @Override
    public boolean onStopJob(JobParameters stopped) {
        return true;
    }

    @Override
    public void onDestroy() {
        super.onDestroy();
        Process.killProcess(Process.myPid());
    }

    private long installed() {
        try {
            return getPackageManager().getPackageInfo(getPackageName(), 0).lastUpdateTime;
        } catch (PackageManager.NameNotFoundException impossible) {
            return 0;
        }
    }

    /** As PythonService does it; nativeStart ends the process if Python ends, and Android then tries the job again. */
    private void run() {
        String files = getFilesDir().getAbsolutePath();
        String root = files + "/app";
        PythonUtil.loadLibraries(new File(root), new File(getApplicationInfo().nativeLibraryDir));
        PythonService.nativeStart(
                files, root, "sending.py", "sending", root, root + ":" + root + "/lib", "");
    }
}
