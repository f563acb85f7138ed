package android.app;

import android.content.Context;
import android.content.Intent;
import android.os.Bundle;
import android.view.View;

public class Activity extends Context {
    protected void onCreate(Bundle state) {}

    public Intent getIntent() {
        return new Intent("android.intent.action.VIEW");
    }

    public void setContentView(View view) {}
}
