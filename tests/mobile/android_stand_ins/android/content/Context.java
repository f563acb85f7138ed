package android.content;

import android.app.job.JobScheduler;
import android.content.pm.ApplicationInfo;
import android.content.pm.PackageManager;
import android.view.accessibility.AccessibilityManager;
import java.io.File;

public class Context {
    public static final JobScheduler SCHEDULER = new JobScheduler();

    public File getFilesDir() {
        return new File("/data/user/0/org.trimask.survey/files");
    }

    public ApplicationInfo getApplicationInfo() {
        return new ApplicationInfo();
    }

    public PackageManager getPackageManager() {
        return new PackageManager();
    }

    public String getPackageName() {
        return "org.trimask.survey";
    }

    public Object getSystemService(String name) {
        if (name.equals("accessibility")) return new AccessibilityManager();
        return name.equals("jobscheduler") ? SCHEDULER : null;
    }

    public final <T> T getSystemService(Class<T> serviceClass) {
        return serviceClass.cast(SCHEDULER);
    }
}
